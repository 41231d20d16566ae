// A whole instance for tests: real HTTP, a fresh database, a manual clock. Start one per describe (`await using` or
// beforeAll/afterAll) and one workspace per test: workspaces share nothing.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { startLocalInstance } from "./local-instance.ts";
import type { CallOptions, Reply } from "../processes/send.ts";
import type { RunningInstance } from "../../src/server/start.ts";
import type { SettingName } from "../../src/config/settings.ts";
import type { Vendor } from "../../src/domain/core/actor.ts";
import type { Ctx } from "../../src/domain/core/context.ts";
import type { PasswordCost } from "../../src/domain/auth/password.ts";
import { createSecretKey } from "../../src/domain/keys/secret-keys.ts";
import { createProject } from "../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../src/domain/workspaces/tenants.ts";
import { createWorkspace } from "../../src/domain/workspaces/workspaces.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { readyDatabase, type Backend } from "../databases/backends.ts";
import { keyActor, testClock, type TestClock } from "./test-services.ts";
import { rawSql, type Row } from "../databases/raw-sql.ts";
import { DEADLINE_MS } from "../waiting.ts";

export type { Reply } from "../processes/send.ts";
export type Json = Record<string, unknown>;
type As = "sk_owner" | "sk_admin" | "sk_test" | "bootstrap" | null;

export type Workspace = {
  id: string;
  slug: string;
  keys: Record<"sk_owner" | "sk_admin" | "sk_test", string>;
  keyIds: Record<"sk_owner" | "sk_admin" | "sk_test", string>;
  project_id: string;
  tenant_id: string;
  call(as: As, route: string, body?: unknown, options?: CallOptions): Promise<Reply>;
  /** The audit actions since the workspace was created for the test. */
  actions(): Promise<string[]>;
  /** A new key, minted as the owner. */
  mint(body?: Json): Promise<Json & { id: string; key: string }>;
};

export type TestInstance = AsyncDisposable & {
  app: RunningInstance;
  url: string;
  clock: TestClock;
  target: DatabaseTarget;
  dataDir: string;
  logs: string[];
  /** Calls a route: `await r.call("krsk_…", "GET /v1/workspace")`. */
  call(bearer: string | null, route: string, body?: unknown, options?: CallOptions): Promise<Reply>;
  workspace(): Promise<Workspace>;
  sql(text: string, values?: (string | number)[]): Promise<Row[]>;
  stop(): Promise<void>;
};

export type TestInstanceOptions = {
  flags?: Partial<Record<SettingName, string>>;
  clock?: TestClock;
  /** Another process on the same database. */
  beside?: TestInstance;
  fatal?: (error: unknown) => void;
  passwordCost?: PasswordCost;
  /** How long a rate-limit check waits for Redis; by default long enough for a busy machine. */
  redisTimeoutMs?: number;
  /** By default the event loop never lags. */
  overloadClock?: () => number;
  /** False: no job of the leader runs by itself, whenever the test moves the clock. */
  leads?: false;
};

const real = (): TestClock => testClock(Date.now());

export async function testInstance(backend: Backend, options: TestInstanceOptions = {}): Promise<TestInstance> {
  const clock = options.clock ?? options.beside?.clock ?? real();
  const fresh = options.beside ? undefined : await readyDatabase(backend);
  const target = options.beside?.target ?? fresh?.target;
  if (!target) throw new Error("no database");
  const dataDir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
  const shared = options.beside && { master_key_file: join(options.beside.dataDir, "master.key") };
  const { fatal, passwordCost, redisTimeoutMs = DEADLINE_MS, overloadClock } = options;
  const flags = { ...shared, ...options.flags };
  const cleanUp = async (): Promise<void> => {
    rmSync(dataDir, { recursive: true, force: true });
    await fresh?.dispose();
  };
  const more = { fatal, passwordCost, redisTimeoutMs, overloadClock };
  const starting = startLocalInstance({ target, dir: dataDir, clock, flags, ...more });
  const { app, logs, call } = await starting.catch(async (refused: unknown) => {
    await cleanUp();
    throw refused;
  });
  if (options.leads === false) Object.defineProperty(app.services.worker, "leads", { get: () => false, set: () => {} });
  return {
    app,
    url: app.url,
    clock,
    target,
    dataDir,
    logs,
    call,
    workspace: () => makeWorkspace(app, call),
    sql: (text, values) => rawSql(target, text, values),
    stop: () => app.stop(),
    async [Symbol.asyncDispose]() {
      await app.stop();
      await cleanUp();
    },
  };
}

let made = 0;
/** Audit rows of a new workspace: itself, its three keys, project and tenant. */
const SETUP_ACTIONS = 6;

async function makeWorkspace(app: RunningInstance, call: TestInstance["call"]): Promise<Workspace> {
  const slug = `w-${process.pid}-${String(++made).padStart(5, "0")}`; // of one length, so that responses are too
  const { services } = app;
  const { workspace: created, secret_key } = await createWorkspace(
    { services, actor: { kind: "bootstrap" } },
    { name: "Test", slug, env: "live" },
  );
  const { id } = created;
  const owner: Ctx<Vendor> = { services, actor: keyActor(id, secret_key) };
  // A key minted by an admin's session has no owner authority. Sessions themselves are tested elsewhere.
  const admin: Ctx<Vendor> = {
    services,
    actor: { kind: "session", id: services.newId(), user_id: services.newId(), workspace_id: id, role: "admin" },
  };
  const [test, adminKey, project, tenant] = await Promise.all([
    createSecretKey(owner, { env: "test" }),
    createSecretKey(admin, { env: "live" }),
    createProject(owner, { name: "API", slug: "api" }),
    createTenant(owner, { external_id: "customer" }),
  ]);
  const keys = { sk_owner: secret_key.key, sk_admin: adminKey.key, sk_test: test.key };
  const log = async (): Promise<{ action: string }[]> =>
    (await call(keys.sk_owner, "GET /v1/audit_logs?limit=200")).body.data as { action: string }[];
  const workspace: Workspace = {
    id,
    slug,
    keys,
    keyIds: { sk_owner: secret_key.id, sk_admin: adminKey.id, sk_test: test.id },
    project_id: project.id,
    tenant_id: tenant.id,
    call: (as, route, content, options) =>
      call(as === null ? null : as === "bootstrap" ? app.bootstrap.token : keys[as], route, content, options),
    actions: async () => (await log()).slice(SETUP_ACTIONS).map(({ action }) => action),
    mint: async (more = {}) => {
      const want = { project_id: workspace.project_id, tenant_id: workspace.tenant_id, env: "live", ...more };
      const reply = await call(keys.sk_owner, "POST /v1/keys", want);
      expect(reply.status).toBe(201);
      return reply.body;
    },
  };
  return workspace;
}

/** Asserts a refusal: status, code, and optionally the paths its details name. */
export function headerNames({ headers }: Reply): string[] {
  return [...headers.keys()].toSorted();
}

export function expectRefusal(reply: Reply, status: number, code: string, ...paths: string[]): void {
  expect({ status: reply.status, code: reply.body?.error?.code, text: reply.text }).toMatchObject({ status, code });
  expect(Object.keys(reply.body)).toEqual(["error"]);
  expect(typeof reply.body.error.message).toBe("string");
  const named = (reply.body.error.details as { path: string }[] | undefined)?.map(({ path }) => path);
  if (paths.length > 0) expect(named).toEqual(paths);
  expect(named ?? []).not.toContain("");
}

/** One instance for all tests of a describe block. */
export function sharedInstance(backend: Backend, options: TestInstanceOptions = {}): TestInstance {
  let started: TestInstance | undefined;
  beforeAll(async () => {
    started = await testInstance(backend, options);
  });
  afterAll(() => started?.[Symbol.asyncDispose]());
  const current = (): TestInstance => {
    if (!started) throw new Error("the instance starts in beforeAll: use it inside a test or hook");
    return started;
  };
  return new Proxy({} as TestInstance, { get: (_none, name) => Reflect.get(current(), name) as unknown });
}
