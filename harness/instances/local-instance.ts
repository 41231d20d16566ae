// A whole instance in this process: real HTTP on a given database, every response validated against its schema,
// the status of every refusal against those that its endpoint declares.
import { startInstance, type RunningInstance } from "../../src/server/start.ts";
import { loadSettings } from "../../src/config/load.ts";
import type { Clock } from "../../src/domain/core/clock.ts";
import type { PasswordCost } from "../../src/domain/auth/password.ts";
import { createLog } from "../../src/platform/log.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { send, type Call } from "../processes/send.ts";
import { requireDeclared } from "../declared-refusals.ts";
import type { Flags } from "./services.ts";

export type LocalInstance = { app: RunningInstance; logs: string[]; call: Call };
type LocalInstanceOptions = {
  target: DatabaseTarget;
  dir: string;
  clock?: Clock;
  flags?: Flags;
  fatal?: ((error: unknown) => void) | undefined;
  passwordCost?: PasswordCost | undefined;
  redisTimeoutMs?: number | undefined;
  overloadClock?: (() => number) | undefined;
};

/** Argon2 at minimal cost: most suites are not about it. */
export const CHEAP: PasswordCost = { memoryCost: 64, timeCost: 2, parallelism: 1 };

/** Clock of the overload guard: on a busy machine the event loop lags, and an instance would respond 503. */
export const neverOverloaded = (): number => 0;

/** KEYRACK_FAST_LANE=off runs a suite with h3 alone; every other setting is the harness's own. */
const LANE: Flags = process.env.KEYRACK_FAST_LANE ? { fast_lane: process.env.KEYRACK_FAST_LANE } : {};

export async function startLocalInstance({
  target,
  dir,
  clock,
  flags,
  fatal,
  passwordCost,
  redisTimeoutMs,
  overloadClock = neverOverloaded,
}: LocalInstanceOptions): Promise<LocalInstance> {
  const logs: string[] = [];
  const database_url = target.kind === "sqlite" ? `sqlite:${target.file}` : target.url;
  const { settings } = loadSettings({
    env: {},
    flags: {
      data_dir: dir,
      port: "0",
      throttle: "off",
      database_url,
      // A clock that a test moves by days would make backups due.
      backup_every: "off",
      restore_test_every: "off",
      ...LANE,
      ...flags,
    },
  });
  const app = await startInstance({
    settings,
    log: createLog({ level: "debug", write: (line) => logs.push(line) }),
    checkOutput: true,
    passwordCost: passwordCost ?? CHEAP,
    redisTimeoutMs,
    overloadClock,
    ...(clock && { clock }),
    ...(fatal && { fatal }),
  });
  const call: Call = async (bearer, route, body, options) => {
    const reply = await send(app.url, bearer, route, body, options);
    requireDeclared(route, reply);
    return reply;
  };
  return { app, logs, call };
}
