// A whole instance in this process: real HTTP on a given database, every response validated against its schema.
import { request } from "node:http";
import { startInstance, type RunningInstance } from "../../src/server/start.ts";
import { loadSettings } from "../../src/config/load.ts";
import type { Clock } from "../../src/domain/core/clock.ts";
import type { PasswordCost } from "../../src/domain/auth/password.ts";
import { createLog } from "../../src/platform/log.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import type { Flags } from "./services.ts";

// Answers are looked at field by field, so their bodies are loosely typed on purpose.
// oxlint-disable-next-line typescript/no-explicit-any
export type Reply = { status: number; headers: Headers; body: any; text: string };
export type CallOptions = { headers?: Record<string, string>; bearer?: string | null; raw?: string };
export type Call = (bearer: string | null, route: string, body?: unknown, options?: CallOptions) => Promise<Reply>;
export type LocalInstance = { app: RunningInstance; logs: string[]; call: Call };
export type LocalInstanceOptions = {
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
  return { app, logs, call: (bearer, route, body, options) => send(app.url, bearer, route, body, options) };
}

/** Calls a route as written: `send(url, "krsk_…", "GET /v1/workspace")`. */
export async function send(
  url: string,
  bearer: string | null,
  route: string,
  body?: unknown,
  options: CallOptions = {},
): Promise<Reply> {
  const [method = "", path = ""] = route.split(" ");
  const credential = options.bearer === undefined ? bearer : options.bearer;
  const headers: Record<string, string> = {};
  if (credential !== null) headers.authorization = `Bearer ${credential}`;
  const content = options.raw ?? (body === undefined ? undefined : JSON.stringify(body));
  if (content !== undefined) headers["content-type"] = "application/json";
  return exchange(url + path, method, { ...headers, ...options.headers }, content);
}

/** `node:http` takes less than half the CPU time of `fetch`, which is most of what a call costs. */
function exchange(url: string, method: string, headers: Record<string, string>, content = ""): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method, headers }, (incoming) => {
      let text = "";
      incoming.setEncoding("utf8");
      incoming.on("data", (chunk: string) => (text += chunk));
      incoming.on("error", reject);
      incoming.on("end", () => {
        const received = new Headers();
        for (const [name, values = []] of Object.entries(incoming.headersDistinct))
          for (const value of values) received.append(name, value);
        const isJson = received.get("content-type")?.startsWith("application/json");
        resolve({
          status: incoming.statusCode ?? 0,
          headers: received,
          text,
          body: isJson && text ? JSON.parse(text) : text,
        });
      });
    });
    outgoing.on("error", reject);
    outgoing.end(content);
  });
}
