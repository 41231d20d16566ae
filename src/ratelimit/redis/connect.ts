// The Redis connection: one client for one URL, a cluster client for several.
// No command waits for a reconnect in a queue: it fails at once, and the caller falls back to memory.
import { Cluster, Redis, type RedisOptions } from "ioredis";

/** ioredis' client for one server, or for a cluster. */
export type RedisClient = Redis | Cluster;

const options = {
  maxRetriesPerRequest: 1,
  enableOfflineQueue: false,
  enableAutoPipelining: true,
  // Checks are batched already (batch.ts); another event-loop turn would only delay them.
  autoPipeliningIgnoredCommands: ["evalsha", "eval"],
  // A command in flight when the connection breaks may have been counted: use memory, do not send it again.
  autoResendUnfulfilledCommands: false,
  connectTimeout: 2_000,
  // A host that disappears sends no reset: without this its socket would stay "ready" for a quarter of an hour.
  socketTimeout: 3_000,
  retryStrategy: (times: number) => Math.min(times * 50, 1_000),
} satisfies RedisOptions;

/** Without `commandTimeout` the caller bounds each command itself. */
export function connectRedis(urls: readonly string[], commandTimeout?: number): RedisClient {
  if (urls.length > 1) return connectCluster(urls, commandTimeout);
  return new Redis(urls[0] ?? "", { ...options, ...(commandTimeout && { commandTimeout }) });
}

/** Credentials and TLS come from the first URL: a cluster has one set of them and announces its own nodes. */
function connectCluster(urls: readonly string[], commandTimeout?: number): Cluster {
  const parsed = urls.map((url) => new URL(url));
  const { username, password, protocol } = parsed[0]!;
  const { enableAutoPipelining, autoPipeliningIgnoredCommands, enableOfflineQueue, retryStrategy, ...node } = options;
  const redisOptions = {
    ...node,
    ...(commandTimeout && { commandTimeout }),
    ...(username !== "" && { username: decodeURIComponent(username) }),
    ...(password !== "" && { password: decodeURIComponent(password) }),
    ...(protocol === "rediss:" && { tls: {} }),
  };
  const nodes = parsed.map((one) => ({ host: one.hostname, port: one.port === "" ? 6379 : Number(one.port) }));
  return new Cluster(nodes, {
    enableAutoPipelining,
    autoPipeliningIgnoredCommands,
    enableOfflineQueue,
    clusterRetryStrategy: retryStrategy,
    slotsRefreshTimeout: 2_000,
    redisOptions,
  });
}
