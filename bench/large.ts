// A workspace with very many keys and audit rows, written by the store itself in large transactions: the chain is a real one,
// and the search index is complete.
import { randomBytes } from "node:crypto";
import { withScratch } from "../harness/databases/scratch.ts";
import { vendorOf } from "../harness/instances/services.ts";
import { openRaw } from "../harness/databases/raw-sql.ts";
import { loadSettings } from "../src/config/load.ts";
import type { SecretKeyActor } from "../src/domain/core/actor.ts";
import type { Clock } from "../src/domain/core/clock.ts";
import type { Ctx, Services } from "../src/domain/core/context.ts";
import { createKey } from "../src/domain/keys/keys.ts";
import { createSecretKey } from "../src/domain/keys/secret-keys.ts";
import { keyTerms } from "../src/domain/search/terms.ts";
import { createProject } from "../src/domain/workspaces/projects.ts";
import { createTenant } from "../src/domain/workspaces/tenants.ts";
import { createLog } from "../src/platform/log.ts";
import { sha256Hex } from "../src/platform/crypto.ts";
import { startInstance, type RunningInstance } from "../src/server/start.ts";
import { insertKey } from "../src/store/queries/keys.ts";
import { saveProgress, writeTerms } from "../src/store/queries/search-terms.ts";
import type { SearchTermRow } from "../src/store/schema/tables.ts";
import type { DatabaseTarget } from "../src/store/target.ts";

const PIECE = 1_000;
const TENANTS_AT_ONCE = 100;
const DAY_MS = 86_400_000;
/** The keys were made evenly over this time. */
const DAYS = 400;
const NAMES = ["billing", "search", "mobile", "partner", "import", "export", "reports", "backup"];

type Span = { readonly keys: number; readonly since: number };

export type LargeWorkspace = {
  ctx: Ctx<SecretKeyActor>;
  /** Live and test secret keys. */
  bearer: string;
  testBearer: string;
  project_id: string;
  tenant_ids: string[];
  /** One of the keys: whole, and its id. */
  key: string;
  key_id: string;
};

export type Size = { keys: number; tenants: number };

/** Keys in every state, each with its audit row. */
export async function fillLarge(
  services: Services,
  target: DatabaseTarget,
  { keys, tenants }: Size,
): Promise<LargeWorkspace> {
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
  const span = { keys, since: services.clock.now() - DAYS * DAY_MS };
  for (let done = 0; done < keys; done += PIECE) await writePiece(ctx, project_id, tenant_ids, span, done);
  await setStates(target);
  const { id: key_id, key } = await createKey(ctx, { project_id, tenant_id: tenant_ids[0]!, env: "live" });
  return { ctx, bearer, testBearer, project_id, tenant_ids, key, key_id };
}

async function writePiece(
  { services, actor }: Ctx<SecretKeyActor>,
  project_id: string,
  tenants: readonly string[],
  span: Span,
  from: number,
): Promise<void> {
  const { workspace_id } = actor;
  const size = Math.min(PIECE, span.keys - from);
  const rows = Array.from({ length: size }, (_, n) => rowOf(services, from + n, span, tenants));
  await services.store.write({
    chains: [workspace_id],
    work: async (tx) => {
      await insertKey.insertMany(
        tx,
        rows.map((row) => ({ ...row, workspace_id, project_id })),
      );
      const terms = rows.flatMap((row) => keyTerms(workspace_id, { ...row, last_used_at: null }));
      await writeTerms(tx, terms.toSorted(byTerm));
      await saveProgress.run(tx, { id: project_id, version: 1, last_id: "~" });
      const entries = rows.map(({ id, env, tenant_id }) => ({
        workspace_id,
        id: services.newId(),
        actor_type: "secret_key" as const,
        actor_id: actor.id,
        action: "api_key.created",
        target_type: "api_key",
        target_id: id,
        payload: { env, project_id, tenant_id },
      }));
      return { value: null, entries };
    },
  });
}

const byTerm = (a: SearchTermRow, b: SearchTermRow): number =>
  a.kind < b.kind ? -1 : a.kind > b.kind ? 1 : a.term < b.term ? -1 : a.term > b.term ? 1 : a.newest - b.newest;

/** A tenth expires within a month. */
function rowOf(services: Services, n: number, { keys, since }: Span, tenants: readonly string[]) {
  const expires_at = n % 10 === 0 ? services.clock.now() + ((n % 30) + 1) * DAY_MS : null;
  return {
    id: services.newId(),
    tenant_id: tenants[n % tenants.length]!,
    env: "live" as const,
    lookup_hash: sha256Hex(randomBytes(16).toString("hex")),
    display_prefix: `kr_live_${randomBytes(4).toString("hex").slice(0, 6)}`,
    name: `service ${NAMES[n % NAMES.length]} ${n}`,
    scopes: JSON.stringify(["orders:read"]),
    meta: "{}",
    rate_limits: null,
    expires_at,
    requested_expires_at: expires_at,
    rotated_from: null,
    created_at: since + Math.floor((n / keys) * DAYS * DAY_MS),
    policy_version: 1,
    allowed_cidrs: null,
    ip_mode: "enforce" as const,
  };
}

/** Some are revoked, disabled or quarantined. */
async function setStates(target: DatabaseTarget): Promise<void> {
  const raw = await openRaw(target);
  const at = Date.now();
  for (const [set, ending] of [
    [`revoked_at = ${at}, revoked_cause = 'revoked'`, "0"],
    [`disabled_at = ${at}`, "1"],
    [`quarantined_at = ${at}`, "2"],
  ])
    await raw.all(`update api_keys set ${set} where lookup_hash like '%${ending}'`);
  await raw.all("analyze");
  await raw.close();
}

export type Large = LargeWorkspace & { app: RunningInstance; target: DatabaseTarget };

/** An instance in this process on a database of its own, which is removed afterwards. */
export function withLarge<T>(
  backend: string,
  size: Size,
  work: (large: Large) => Promise<T>,
  options: { clock?: Clock; flags?: Record<string, string> } = {},
): Promise<T> {
  return withScratch(backend, async ({ dir, target }) => {
    const database = target.kind === "postgres" ? { database_url: target.url } : {};
    const off = { throttle: "off", backup_every: "off", restore_test_every: "off" };
    const flags = { data_dir: dir, port: "0", ...off, ...database, ...options.flags };
    const { settings } = loadSettings({ env: {}, flags, cwd: dir });
    const { clock } = options;
    const app = await startInstance({ settings, log: createLog({ level: "error" }), ...(clock && { clock }) });
    try {
      const start = performance.now();
      const world = await fillLarge(app.services, target, size);
      const seconds = Math.round((performance.now() - start) / 1_000);
      console.error(`${backend}: ${size.keys} keys and ${size.tenants} tenants in ${seconds} s`);
      await app.idle();
      return await work({ ...world, app, target });
    } finally {
      await app.stop();
    }
  });
}
