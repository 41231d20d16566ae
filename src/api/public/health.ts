// Probes. /healthz accesses nothing; /readyz obtains a database connection and gives up after about three seconds;
// /status is for people: the health of each component, cached for five seconds.
import { z } from "zod";
import { showStatus } from "../../domain/health/status.ts";
import { HEALTHS } from "../../domain/health/state.ts";
import { endpoint } from "../../http/endpoint.ts";
import { jsonResponse } from "../../http/response.ts";

const READY_WAIT_MS = 3_000;

const RedisState = z.strictObject({
  configured: z.boolean(),
  ready: z.boolean(),
  error: z.string().nullable(),
});

export const healthz = endpoint("GET /healthz", {
  summary: "Liveness probe.",
  access: "public",
  looseQuery: true,
  output: z.strictObject({ status: z.literal("ok"), region: z.string(), redis: RedisState }),
  handle: ({ services }) => ({
    status: "ok" as const,
    region: services.settings.region,
    redis: services.counters.redisState(),
  }),
});

export const readyz = endpoint("GET /readyz", {
  summary:
    "Readiness probe: 503 if no database connection is available within about three seconds, or none for writes since one failed.",
  access: "public",
  looseQuery: true,
  output: z.strictObject({
    status: z.enum(["ok", "degraded", "unavailable"]),
    region: z.string(),
    database: z.enum(["ok", "timeout", "error"]),
    redis: RedisState,
  }),
  failures: ["unavailable"],
  handle: async ({ services }) => {
    const redis = services.counters.redisState();
    const { region } = services.settings;
    try {
      await services.store.ping(READY_WAIT_MS);
    } catch (error) {
      const database = /time/i.test((error as Error).message) ? "timeout" : "error";
      return jsonResponse(503, { status: "unavailable", region, database, redis }, { "retry-after": "1" });
    }
    const isDegraded = (redis.configured && !redis.ready) || services.writtenBytes.isDiskLow;
    return { status: isDegraded ? ("degraded" as const) : ("ok" as const), region, database: "ok" as const, redis };
  },
});

const Component = z.enum(HEALTHS);

export const status = endpoint("GET /status", {
  summary:
    "Show the health of each component, the last restore test, and the versions of the processes on this database. Always 200; cached for five seconds.",
  access: "public",
  looseQuery: true,
  output: z.strictObject({
    status: z.enum(["ok", "degraded", "down"]),
    components: z.strictObject({
      api: Component,
      database: Component,
      redis: Component,
      worker: Component,
      backup: Component,
    }),
    restoreTest: z.strictObject({
      lastRunAt: z.string().nullable(),
      pass: z.boolean().nullable(),
      backupId: z.string().nullable(),
    }),
    versions: z.array(z.string()),
  }),
  handle: ({ services }) => showStatus(services),
});
