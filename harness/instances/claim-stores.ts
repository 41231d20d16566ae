// The idempotency stores a suite runs on: `for (const store of claimStores) describe(…)`. The Redis one is its own
// server that syncs every write, started by `open` and stopped by `close`.
import { backends } from "../databases/backends.ts";
import { testInstance, type TestInstanceOptions, type TestInstance } from "./test-instance.ts";
import { startDurableRedis, type DurableRedis, type OwnRedis } from "../databases/redis.ts";

type ClaimStoreUnderTest = {
  name: string;
  /** A fresh instance; `beside` shares the database and Redis of an earlier one. */
  open(options?: TestInstanceOptions): Promise<TestInstance>;
  /** Its Redis, for fault injection. */
  redis(): OwnRedis | undefined;
  close(): Promise<void>;
};

function redisClaims(): ClaimStoreUnderTest {
  let redis: DurableRedis | undefined;
  return {
    name: "redis",
    async open(options = {}) {
      redis ??= await startDurableRedis();
      return testInstance("sqlite", {
        ...options,
        flags: { redis_url: redis.url, idempotency_store: "redis", ...options.flags },
      });
    },
    redis: () => redis,
    async close() {
      await redis?.stop();
      redis = undefined;
    },
  };
}

export const claimStores: ClaimStoreUnderTest[] = [
  ...backends.map((backend) => ({
    name: backend,
    open: (options?: TestInstanceOptions) => testInstance(backend, options),
    redis: () => undefined,
    close: async () => {},
  })),
  redisClaims(),
];
