// Leases of quota units over several processes with Redis: their units come back once, whichever process gets the
// return.
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { hasRedis, startRedis, type OwnRedis } from "../../../harness/databases/redis.ts";
import { testServices, type TestServices } from "../../../harness/instances/test-services.ts";
import { MeteredWorld, quotaOf } from "../../../harness/ratelimit/metered.ts";
import { createGrant } from "../../../src/domain/quotas/grants.ts";
import type { RateLimit } from "../../../src/kernel/ratelimit/rule.ts";

const rule: RateLimit = { id: "burst", limit: 50, window_ms: 60_000, algorithm: "fixed", scope: "key" };
const quota = quotaOf({ amount: 100, refill: "none" });

for (const backend of hasRedis() ? runBackends : []) {
  describe(`leases of quotas on ${backend} with Redis`, () => {
    let redis: OwnRedis;
    let [here, there]: TestServices[] = [];
    beforeAll(async () => {
      redis = (await startRedis())!;
      here = await testServices(backend, { flags: { redis_url: redis.url } });
      there = await here.another();
    });
    afterAll(async () => {
      await there?.[Symbol.asyncDispose]();
      await here?.[Symbol.asyncDispose]();
      await redis?.stop();
    });

    /** The same key in the process that grants leases, and in another one. */
    const world = async () => {
      const own = await MeteredWorld.create(here!.services, { key: [quota] });
      return { own, other: own.in(there!.services) };
    };
    /** Units that were not given back, once both processes hold none. */
    const spent = async ({ key_id }: MeteredWorld) => {
      await Promise.all([here!.services.quotas.close(), there!.services.quotas.close()]);
      return here!.sql("select taken, from_amount from quota_balances where subject_id = $1", [key_id]);
    };

    it.each([[[]], [[rule]]])("come back through another process, with the rules %j", async (limits) => {
      const { own, other } = await world();
      const { lease_id, granted } = await own.lease(8, limits);
      expect(granted).toBeGreaterThan(0);
      expect(await other.return(lease_id, granted)).toMatchObject({ returned: granted });
      expect(await spent(own)).toEqual([{ taken: 0, from_amount: 0 }]);
    });

    it.runIf(backend === "postgres")("are no longer held once they come back through another process", async () => {
      const { own, other } = await world();
      const { lease_id, granted } = await own.lease(8);
      here!.clock.advance(4_000);
      await here!.services.quotas.sweep(); // the other process sees what is held
      expect(await other.return(lease_id, granted)).toMatchObject({ returned: granted });
      expect(await other.balance()).toMatchObject({ spent: 0 });
      await expect.poll(() => own.balance()).toMatchObject({ spent: 0, held: 0, remaining: 100 });
    });

    it("come back once, however many processes get the return at the same time", async () => {
      const { own, other } = await world();
      const { lease_id, granted } = await own.lease(8);
      const all = [own, other, own, other].map((one) => one.return(lease_id, granted));
      const returned = (await Promise.all(all)).map((one) => one.returned);
      expect(returned.toSorted((a, b) => a - b)).toEqual([0, 0, 0, granted]);
      expect(await spent(own)).toEqual([{ taken: 0, from_amount: 0 }]);
    });

    it("come back once although Redis has the record of the lease again", async () => {
      const { own, other } = await world();
      await own.check({ cost: 1 });
      const client = new Redis(redis.url);
      const values = async () => {
        const names = await client.keys("*");
        const texts = await Promise.all(names.map((name) => client.get(name).catch(() => null)));
        return names.flatMap((name, i) => (texts[i]?.includes('"granted"') ? [[name, texts[i]] as const] : []));
      };
      for (const [first, second] of [
        [own, other],
        [other, own],
      ] as const) {
        const { lease_id, granted } = await own.lease(8);
        const before = await values();
        expect(await first.return(lease_id, granted)).toMatchObject({ returned: granted });
        for (const [name, text] of before) await client.set(name, text);
        expect(await second.return(lease_id, granted)).toMatchObject({ returned: 0 });
      }
      client.disconnect();
      expect(await spent(own)).toEqual([{ taken: 1, from_amount: 1 }]);
    });

    it("come back to the grants that they came from, the last units first", async () => {
      const { own, other } = await world();
      await own.check({ cost: 100 });
      await createGrant(own.ctx, { scope: "key", key_id: own.key_id, quota_id: quota.id }, { units: 500 });
      const { lease_id, granted } = await own.lease(3);
      expect([granted, (await other.return(lease_id, 2)).returned]).toEqual([3, 2]);
      expect(await spent(own)).toEqual([{ taken: 101, from_amount: 100 }]);
      expect((await own.balance()).granted).toBe(499);
    });

    it("of another workspace, or a minute after the end, do not come back", async () => {
      const { own, other } = await world();
      const [first, late] = [await own.lease(1), await own.lease(1)];
      const foreign = (await MeteredWorld.create(there!.services, {})).return(first.lease_id, 1);
      expect((await foreign).returned).toBe(0);
      here!.clock.advance(70_001);
      expect((await other.return(late.lease_id, 1)).returned).toBe(0);
    });
  });
}
