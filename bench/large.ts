// A workspace with very many keys and audit rows, and an instance that serves it. The rows are written before the
// instance starts: the process does nothing else meanwhile, and an instance would shed the first requests after that.
import { withScratch } from "../harness/databases/scratch.ts";
import { vendorOf } from "../harness/instances/services.ts";
import { loadSettings } from "../src/config/load.ts";
import { runCheckpoints } from "../src/domain/audit/checkpoints.ts";
import type { SecretKeyActor } from "../src/domain/core/actor.ts";
import type { Clock } from "../src/domain/core/clock.ts";
import type { Ctx, Services } from "../src/domain/core/context.ts";
import { createKey } from "../src/domain/keys/keys.ts";
import { createSecretKey } from "../src/domain/keys/secret-keys.ts";
import { createProject } from "../src/domain/workspaces/projects.ts";
import { createTenant } from "../src/domain/workspaces/tenants.ts";
import { createLog } from "../src/platform/log.ts";
import { startInstance, type RunningInstance } from "../src/server/start.ts";
import type { DatabaseTarget } from "../src/store/target.ts";
import { writeRows, type Owner } from "./large-rows.ts";

const TENANTS_AT_ONCE = 100;

export type Size = { keys: number; tenants: number };

export type LargeWorkspace = Owner & {
  ctx: Ctx<SecretKeyActor>;
  /** Live and test secret keys. */
  bearer: string;
  testBearer: string;
  /** One of the keys: whole, and its id. */
  key: string;
  key_id: string;
};

export type Large = LargeWorkspace & { app: RunningInstance; target: DatabaseTarget };

type Bearers = { bearer: string; testBearer: string };

async function createOwner(services: Services, tenants: number): Promise<Owner & Bearers> {
  const ctx = await vendorOf(services, "live", "large");
  const { id: project_id } = await createProject(ctx, { name: "API", slug: "api" });
  const tenant_ids: string[] = [];
  for (let i = 0; i < tenants; i += TENANTS_AT_ONCE) {
    const length = Math.min(TENANTS_AT_ONCE, tenants - i);
    const made = Array.from({ length }, (_, n) => createTenant(ctx, { external_id: `customer-${i + n}` }));
    tenant_ids.push(...(await Promise.all(made)).map(({ id }) => id));
  }
  const { key: bearer } = await createSecretKey(ctx, { env: "live" });
  const { key: testBearer } = await createSecretKey(ctx, { env: "test" });
  return { actor: ctx.actor, project_id, tenant_ids, bearer, testBearer };
}

/** An instance in this process on a database of its own, which is removed afterwards. */
export function withLarge<T>(
  backend: string,
  size: Size,
  work: (large: Large) => Promise<T>,
  options: { clock?: Clock; flags?: Record<string, string> } = {},
): Promise<T> {
  return withScratch(backend, async ({ dir, target }) => {
    const database = target.kind === "postgres" ? { database_url: target.url } : {};
    const off = { throttle: "off", backup_every: "off", restore_test_every: "off", audit_verify_every: "off" };
    const flags = { data_dir: dir, port: "0", ...off, ...database, ...options.flags };
    const { settings } = loadSettings({ env: {}, flags, cwd: dir });
    const { clock } = options;
    const start = () => startInstance({ settings, log: createLog({ level: "error" }), ...(clock && { clock }) });
    const begun = performance.now();
    const owner = await whileRunning(await start(), ({ services }) => createOwner(services, size.tenants));
    await writeRows(target, owner, { keys: size.keys, now: clock?.now() ?? Date.now() });
    const seconds = Math.round((performance.now() - begun) / 1_000);
    console.error(`${backend}: ${size.keys} keys and ${size.tenants} tenants in ${seconds} s`);
    return whileRunning(await start(), async (app) => {
      const ctx = { services: app.services, actor: owner.actor };
      const { project_id, tenant_ids } = owner;
      const { id: key_id, key } = await createKey(ctx, { project_id, tenant_id: tenant_ids[0]!, env: "live" });
      // The first checkpoint reads the whole chain, beside the requests that are measured.
      await runCheckpoints(app.services);
      await app.idle();
      return work({ ...owner, ctx, key, key_id, app, target });
    });
  });
}

async function whileRunning<T>(app: RunningInstance, work: (app: RunningInstance) => Promise<T>): Promise<T> {
  try {
    return await work(app);
  } finally {
    await app.stop();
  }
}
