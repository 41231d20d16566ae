// A deployment that a test starts, stops, backs up and restores: its data dir, database and address survive restarts,
// so that clients reconnect.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startInstance, type RunningInstance } from "../../src/server/start.ts";
import { createClient, type Client } from "../api-client.ts";
import { loadSettings } from "../../src/config/load.ts";
import type { SettingName, Settings } from "../../src/config/settings.ts";
import { createLog } from "../../src/platform/log.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { migratedFile, readyDatabase, type Backend } from "../databases/backends.ts";
import { CHEAP, neverOverloaded } from "./local-instance.ts";
import { portOf, stableAddress } from "../processes/stable-address.ts";

type Flags = Partial<Record<SettingName, string>>;

export type Deployment = AsyncDisposable & {
  dir: string;
  target: DatabaseTarget;
  settings(flags?: Flags): Settings;
  logs: string[];
  log: ReturnType<typeof createLog>;
  start(flags?: Flags): Promise<RunningInstance>;
};

function settingsOf(dir: string, target: DatabaseTarget, more: Flags): Settings {
  const flags: Flags = {
    data_dir: dir,
    port: "0",
    throttle: "off",
    backup_every: "off",
    restore_test_every: "off",
    ...(target.kind === "postgres" && { database_url: target.url }),
    ...more,
  };
  return loadSettings({ env: {}, flags, cwd: dir }).settings;
}

export async function deployment(backend: Backend, fixed: Flags = {}): Promise<Deployment> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
  const database = backend === "postgres" ? await readyDatabase(backend) : null;
  const file = join(dir, "keyrack.db");
  const target: DatabaseTarget = database?.target ?? { kind: "sqlite", file };
  if (!database) writeFileSync(file, await migratedFile(), { mode: 0o600 });
  const address = await stableAddress();
  const logs: string[] = [];
  const log = createLog({ level: "debug", write: (line) => logs.push(line) });
  const settings = (flags: Flags = {}): Settings => settingsOf(dir, target, { ...fixed, ...flags });
  const running = new Set<RunningInstance>();
  return {
    dir,
    target,
    settings,
    logs,
    log,
    async start(flags) {
      const app = await startInstance({
        settings: settings(flags),
        log,
        checkOutput: true,
        passwordCost: CHEAP,
        overloadClock: neverOverloaded,
      });
      running.add(app);
      address.target = portOf(app.url);
      const stop = (): Promise<void> => {
        address.target = null;
        return app.stop();
      };
      return { ...app, url: address.url, stop };
    },
    async [Symbol.asyncDispose]() {
      for (const app of running) await app.stop();
      await address[Symbol.asyncDispose]();
      await database?.dispose();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

type WorkspaceSetup = {
  client: Client;
  secretKey: string;
  workspace_id: string;
  project_id: string;
  tenant_id: string;
  mint(): Promise<{ id: string; key: string }>;
};

/** A workspace with a project and a tenant, over HTTP. */
export async function setUpWorkspace(app: RunningInstance, slug: string): Promise<WorkspaceSetup> {
  const boot = createClient({ url: app.url, bearer: app.bootstrap.token ?? "" });
  const made = await boot.call("POST /v1/workspaces", { body: { name: "Shop", slug } });
  const client = createClient({ url: app.url, bearer: made.secret_key.key });
  const project = await client.call("POST /v1/projects", { body: { name: "P", slug: "ppp" } });
  const tenant = await client.call("POST /v1/tenants", { body: { external_id: "t" } });
  const ids = { project_id: project.id, tenant_id: tenant.id };
  return {
    client,
    secretKey: made.secret_key.key,
    workspace_id: made.workspace.id,
    ...ids,
    mint: () => client.call("POST /v1/keys", { body: { ...ids, env: "live" } }),
  };
}
