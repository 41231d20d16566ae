// The Redis connection: one client for one URL, a cluster client for several.
// No command waits for a reconnect in a queue: it fails at once, and the caller falls back to memory.
import { Cluster, Redis, type RedisOptions } from "ioredis";

/** ioredis' client for one server, or for a cluster. */
export type RedisClient = Redis | Cluster;

const options = {
  maxRetriesPerRequest: 1,
  enableOfflineQueue: false,
  // Not ioredis' automatic pipelines: one whose connection breaks stays unanswered and blocks every later one. Checks
  // are batched already (batch.ts).
  enableAutoPipelining: false,
  // It would print to standard error for a user without INFO. The counters probe a connection before they count on it,
  // and claims read its configuration.
  enableReadyCheck: false,
  // A command in flight when the connection breaks may have been counted: use memory, do not send it again.
  autoResendUnfulfilledCommands: false,
  connectTimeout: 2_000,
  retryStrategy: (times: number) => Math.min(times * 50, 1_000),
} satisfies RedisOptions;

// A host that disappears sends no reset: without this its socket would stay "ready" for a quarter of an hour.
const SILENT_MAX_MS = 3_000;

type Timeouts = {
  /** Without it the caller bounds each command itself. */
  commandTimeout?: number;
  socketTimeout?: number | undefined;
};

export function connectRedis(
  urls: readonly string[],
  { socketTimeout = SILENT_MAX_MS, ...more }: Timeouts = {},
): RedisClient {
  const timeouts = { socketTimeout, ...more };
  return urls.length > 1 ? connectCluster(urls, timeouts) : new Redis(urls[0] ?? "", { ...options, ...timeouts });
}

/** Credentials and TLS come from the first URL: a cluster has one set of them and announces its own nodes. */
function connectCluster(urls: readonly string[], timeouts: Timeouts): Cluster {
  const parsed = urls.map((url) => new URL(url));
  const { username, password, protocol } = parsed[0]!;
  const { enableOfflineQueue, retryStrategy, ...node } = options;
  const redisOptions = {
    ...node,
    ...timeouts,
    ...(username !== "" && { username: decodeURIComponent(username) }),
    ...(password !== "" && { password: decodeURIComponent(password) }),
    ...(protocol === "rediss:" && { tls: {} }),
  };
  const nodes = parsed.map((one) => ({ host: one.hostname, port: one.port === "" ? 6379 : Number(one.port) }));
  return new Cluster(nodes, {
    enableOfflineQueue,
    clusterRetryStrategy: retryStrategy,
    slotsRefreshTimeout: 2_000,
    redisOptions,
  });
}

/** Rejects if there is no such database. ioredis selects it too, but uses another one if that fails. */
export async function selectDatabase(client: RedisClient): Promise<void> {
  if (client instanceof Redis && client.options.db) await client.select(client.options.db);
}
