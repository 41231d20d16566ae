// The Redis connection: one client for one URL, a cluster client for several.
// The trap: a queue. No command may wait for a connection to come back: it fails at once and memory answers.
import { Cluster, Redis, type RedisOptions } from "ioredis";

/** ioredis' two clients, as far as the counter uses them. */
export type RedisClient = Redis | Cluster;

const options = {
  maxRetriesPerRequest: 1,
  enableOfflineQueue: false,
  enableAutoPipelining: true,
  // Checks come in batches already (batch.ts); another turn of the event loop would only delay them.
  autoPipeliningIgnoredCommands: ["evalsha", "eval"],
  // A command in flight when the connection breaks may have been counted: answer from memory, do not send it again.
  autoResendUnfulfilledCommands: false,
  connectTimeout: 2_000,
  // A host that vanished sends no reset: without this its socket would stay "ready" for a quarter of an hour.
  socketTimeout: 3_000,
  retryStrategy: (times: number) => Math.min(times * 50, 1_000),
} satisfies RedisOptions;

export function connectRedis(urls: readonly string[], commandTimeout: number): RedisClient {
  if (urls.length > 1) return connectCluster(urls, commandTimeout);
  return new Redis(urls[0] ?? "", { ...options, commandTimeout });
}

/** Credentials and TLS are the first URL's: one cluster has one set of them, and it names its own nodes. */
function connectCluster(urls: readonly string[], commandTimeout: number): Cluster {
  const parsed = urls.map((url) => new URL(url));
  const { username, password, protocol } = parsed[0]!;
  const { enableAutoPipelining, autoPipeliningIgnoredCommands, enableOfflineQueue, retryStrategy, ...node } = options;
  const redisOptions = {
    ...node,
    commandTimeout,
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
