// Services without HTTP on a given database, with a manual clock: for tests of the domain, and for campaigns that need
// only the domain.
import { tmpdir } from "node:os";
import { loadSettings } from "../../src/config/load.ts";
import type { SettingName } from "../../src/config/settings.ts";
import type { SecretKeyActor, Vendor } from "../../src/domain/core/actor.ts";
import type { Clock } from "../../src/domain/core/clock.ts";
import type { Ctx, Services } from "../../src/domain/core/context.ts";
import { Throttles } from "../../src/domain/limits/throttles.ts";
import { createVault } from "../../src/domain/vault/vault.ts";
import { createWorkspace } from "../../src/domain/workspaces/workspaces.ts";
import { Shares } from "../../src/fairness/shares.ts";
import type { Env } from "../../src/kernel/credentials.ts";
import type { Log } from "../../src/platform/log.ts";
import { openServices } from "../../src/server/services.ts";
import { openStore } from "../../src/store/database.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { rawSql, type Row } from "../databases/raw-sql.ts";
import { DEADLINE_MS } from "../waiting.ts";

export const START = Date.UTC(2026, 10, 14);
const MASTER = Buffer.alloc(32, 9);

export type TestClock = Clock & {
  advance(ms: number): void;
  set(ms: number): void;
  /** Sets the wall clock forward: no time passes. */
  jump(ms: number): void;
};
type Logged = { level: keyof Log; event: string; fields: Record<string, unknown> };

export type TestServices = AsyncDisposable & {
  services: Services;
  target: DatabaseTarget;
  clock: TestClock;
  logged: Logged[];
  /** Errors the store reported as fatal; the process would have ended. */
  fatal: unknown[];
  /** Reads or writes the database on a connection of its own. */
  sql(text: string, values?: (string | number)[]): Promise<Row[]>;
  /** As a second process would have: other services on the same data dir and database (or another way to reach it). */
  another(target?: DatabaseTarget, flags?: Flags): Promise<TestServices>;
};

export function testClock(start = START): TestClock {
  let [ms, aheadMs] = [start, 0];
  return {
    now: () => ms + aheadMs,
    steady: () => ms,
    setBack: () => {},
    advance: (by) => {
      ms += by;
    },
    set: (to) => {
      ms = to;
    },
    jump: (by) => {
      aheadMs += by;
    },
  };
}

function recordingLog(logged: Logged[]): Log {
  const at =
    (level: keyof Log) =>
    (event: string, fields: Record<string, unknown> = {}): void => {
      logged.push({ level, event, fields });
    };
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

export type Flags = Partial<Record<SettingName, string>>;

export async function openTestServices(target: DatabaseTarget, flags: Flags, clock: TestClock): Promise<TestServices> {
  const { settings } = loadSettings({ env: {}, flags, cwd: tmpdir() });
  const [logged, fatal]: [Logged[], unknown[]] = [[], []];
  const log = recordingLog(logged);
  const store = await openStore(target, { now: () => clock.now(), fatal: (error) => void fatal.push(error) });
  const shares = new Shares(settings);
  const opened = new AsyncDisposableStack();
  opened.defer(() => store.close());
  const passwordCost = { memoryCost: 64, timeCost: 2, parallelism: 1 };
  const redis = { externalNow: () => clock.steady(), redisTimeoutMs: DEADLINE_MS };
  const shared = await openServices({ store, clock, settings, shares, log, passwordCost, ...redis }, opened);
  const services = {
    ...shared,
    settings,
    vault: createVault(MASTER),
    publicUrl: settings.public_url ?? "http://localhost",
    command: "keyrack",
    throttles: new Throttles(clock, false, shares.of("throttles")),
    mail: { transport: { deliver: async () => {}, prune: async () => {}, close: () => {} }, wake: () => {} },
    bootstrapHash: () => null,
    inFlight: new Set<string>(),
    worker: { leads: true, failing: new Set<string>(), searchPasses: new Map<string, Promise<boolean>>() },
  } satisfies Partial<Services> as Services; // the domain alone does not use what is missing
  return {
    services,
    target,
    clock,
    logged,
    fatal,
    sql: (text, values) => rawSql(target, text, values),
    another: (way = target, other = {}) => openTestServices(way, { ...flags, ...other }, clock),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** Creates a workspace and returns the context of its secret key. */
export async function vendorOf(
  services: Services,
  env: Env = "live",
  slug = `w-${services.newId()}`,
): Promise<Ctx<SecretKeyActor>> {
  const made = await createWorkspace({ services, actor: { kind: "bootstrap" } }, { name: "Acme", slug, env });
  return { services, actor: keyActor(made.workspace.id, made.secret_key) };
}

export function keyActor(workspace_id: string, key: { id: string; env: Env }): SecretKeyActor {
  return {
    kind: "secret_key",
    id: key.id,
    workspace_id,
    env: key.env,
    owner_scope: true,
    expires_at: null,
    restriction: null,
  };
}

/** The same workspace seen by a person. */
export function asOwner(ctx: Ctx<Vendor>): Ctx<Vendor> {
  const { workspace_id } = ctx.actor;
  const actor: Vendor = { kind: "session", id: "s", user_id: ctx.services.newId(), workspace_id, role: "owner" };
  return { services: ctx.services, actor };
}
