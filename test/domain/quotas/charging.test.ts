// Charging quotas: no balance is overspent, whatever runs at the same time, and nothing that was admitted is forgotten.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { MeteredWorld, quotaOf } from "../../../harness/ratelimit/metered.ts";
import { sharedServices } from "../../../harness/instances/test-services.ts";
import type { RateLimit } from "../../../src/kernel/ratelimit/rule.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

const rule: RateLimit = { id: "burst", limit: 3, window_ms: 60_000, algorithm: "fixed", scope: "key" };

for (const backend of backends) {
  describe(`quotas on ${backend}`, () => {
    const shared = sharedServices(backend);
    const world = MeteredWorld.creatorIn(shared);

    it("admit exactly their amount of concurrent requests", async () => {
      const metered = await world({ tenant: [quotaOf({ amount: 100 })] });
      expect(await metered.admitted(130)).toBe(100);
      const { spent, remaining, exceeded } = await metered.balance();
      expect({ spent, remaining, exceeded }).toEqual({ spent: 100, remaining: 0, exceeded: false });
    });

    it("are taken for all requests that wait at once, except those that cost more than is left", async () => {
      const metered = await world({ tenant: [quotaOf({ amount: 30 })] });
      const { metrics } = shared().services.quotas;
      const before = metrics.taken;
      const small = Array.from({ length: 40 }, () => metered.check());
      const [large, ...checks] = await Promise.all([metered.check({ cost: 31 }), ...small]);
      expect([large.allowed, checks.filter(({ allowed }) => allowed).length]).toEqual([false, 30]);
      expect(metrics.taken - before).toBeLessThanOrEqual(3);
    });

    it("are shared by leases that wait at once, and none of them is given back meanwhile", async () => {
      const metered = await world({ key: [quotaOf({ amount: 640 })] });
      const { metrics } = shared().services.quotas;
      const before = { ...metrics };
      const leases = await Promise.all(Array.from({ length: 63 }, () => metered.lease(1_000)));
      const granted = leases.map((lease) => lease.granted);
      expect(Math.min(...granted)).toBeGreaterThanOrEqual(1);
      expect(granted.reduce((sum, units) => sum + units, 0)).toBeLessThanOrEqual(640);
      expect([metrics.taken - before.taken < 4, metrics.returned - before.returned]).toEqual([true, 0]);
    });

    it("answer with what is left, and when it is refilled", async () => {
      const metered = await world({ key: [quotaOf({ amount: 2, refill: "daily" })] });
      const first = await metered.check();
      expect(first).toMatchObject({ allowed: true, limited_quota: null, limited_policy: null, policies: [] });
      expect(first.quotas).toEqual([
        {
          id: "calls",
          scope: "key",
          amount: 2,
          remaining: 1,
          reset_ms: DAY_MS - (shared().clock.now() % DAY_MS),
          overage: "deny",
          exceeded: false,
        },
      ]);
      await metered.check();
      const denied = await metered.check();
      expect(denied).toMatchObject({ allowed: false, limited_quota: "calls", limited_policy: null });
      expect(denied.retry_after_seconds).toBe(Math.ceil((DAY_MS - (shared().clock.now() % DAY_MS)) / 1000));
    });

    it("charge the key's own and its tenant's, and both or none", async () => {
      const metered = await world({ key: [quotaOf({ id: "own", amount: 2 })], tenant: [quotaOf({ amount: 1 })] });
      expect(await metered.admitted(1)).toBe(1);
      const denied = await metered.check();
      expect([denied.allowed, denied.limited_quota]).toEqual([false, "calls"]);
      expect(denied.quotas.map(({ id, remaining }) => [id, remaining])).toEqual([
        ["own", 1],
        ["calls", 0],
      ]);
    });

    it("charge nothing when a rate limit refuses, and no rate limit when they refuse", async () => {
      const metered = await world({ key: [quotaOf({ amount: 5 })] });
      expect(await metered.admitted(4, { limits: [rule] })).toBe(3);
      expect((await metered.balance()).spent).toBe(3);
      expect(await metered.admitted(3)).toBe(2);
      shared().clock.advance(61_000);
      const denied = await metered.check({ limits: [rule] });
      expect([denied.allowed, denied.limited_quota, denied.limited_policy]).toEqual([false, "calls", null]);
      expect(denied.policies[0]?.remaining).toBe(3);
    });

    it("that only report never deny, and say that they are exceeded", async () => {
      const metered = await world({ key: [quotaOf({ amount: 2, overage: "report" })] });
      expect(await metered.admitted(5)).toBe(5);
      const { spent, remaining, exceeded } = await metered.balance();
      expect({ spent, remaining, exceeded }).toEqual({ spent: 5, remaining: 0, exceeded: true });
    });

    it("are not charged by a peek", async () => {
      const metered = await world({ key: [quotaOf({ amount: 1 })] });
      const peeks = [await metered.check({ cost: 0 }), await metered.check({ cost: 0 })];
      expect(peeks.map(({ allowed, quotas }) => [allowed, quotas[0]?.remaining])).toEqual([
        [true, 1],
        [true, 1],
      ]);
      expect((await metered.balance()).spent).toBe(0);
      await metered.check();
      expect((await metered.check({ cost: 0 })).allowed).toBe(false);
    });

    it("refuse for ever what costs more than there can be, and what is never refilled", async () => {
      const metered = await world({ key: [quotaOf({ amount: 5 })] });
      const tooMuch = await metered.check({ cost: 6 });
      expect([tooMuch.allowed, tooMuch.retry_after_seconds]).toEqual([false, null]);
      const once = await world({ key: [quotaOf({ amount: 1, refill: "none" })] });
      await once.check();
      const spent = await once.check();
      expect([spent.retry_after_seconds, spent.quotas[0]?.reset_ms]).toEqual([null, null]);
    });

    it("start again with the next period, and not with a clock that goes back", async () => {
      const metered = await world({ key: [quotaOf({ amount: 10, refill: "daily" })] });
      expect(await metered.admitted(12)).toBe(10);
      shared().clock.advance(DAY_MS);
      expect(await metered.admitted(12)).toBe(10);
      shared().clock.advance(-DAY_MS);
      expect(await metered.admitted(1)).toBe(0);
      shared().clock.advance(DAY_MS);
    });

    it("that a process has not used for 10 s go back, and at a clean stop", async () => {
      const metered = await world({ key: [quotaOf({ amount: 640 })] });
      const taken = async () =>
        Number(
          (await shared().sql("select taken from quota_balances where subject_id = $1", [metered.key_id]))[0]?.[
            "taken"
          ],
        );
      await metered.check();
      expect(await taken()).toBe(10);
      expect((await metered.balance()).spent).toBe(1);
      shared().clock.advance(10_000);
      await shared().services.quotas.sweep();
      expect(await taken()).toBe(1);
      await metered.check();
      await shared().services.quotas.close();
      expect(await taken()).toBe(2);
      expect((await metered.balance()).remaining).toBe(638);
    });

    it("are not lost when a request comes while unused ones are given back", async () => {
      const metered = await world({ key: [quotaOf({ amount: 640 })] });
      await metered.check();
      shared().clock.advance(10_000);
      await Promise.all([shared().services.quotas.sweep(), metered.check()]);
      await shared().services.quotas.close();
      const { spent, remaining } = await metered.balance();
      expect({ spent, remaining }).toEqual({ spent: 2, remaining: 638 });
    });

    it("are not spent by a lease whose client has left before the answer", async () => {
      const metered = await world({ key: [quotaOf({ amount: 640 })] });
      await new MeteredWorld({ ...metered.ctx, hasDisconnected: () => true }, metered).lease(8);
      expect(await metered.balance()).toMatchObject({ spent: 0, held: 0, remaining: 640 });
    });

    it("of a process that was killed count as spent, at most two blocks", async () => {
      const metered = await world({ key: [quotaOf()] });
      const before = await (async () => {
        await using killed = await shared().another();
        return await metered.in(killed.services).admitted(20);
      })();
      expect(before).toBe(20);
      shared().clock.advance(5_000); // until then other processes believe that it lives
      const { spent, remaining } = await metered.balance();
      expect([spent + remaining, spent >= 20, spent <= 20 + 2 * 15]).toEqual([1_000, true, true]);
      expect((await metered.check({ cost: remaining })).allowed).toBe(true);
      expect((await metered.check()).allowed).toBe(false);
    });

    it.each(["a rule", "another quota", "its client, which left"])(
      "taken for a request that is refused by %s go back at once, but for two blocks",
      async (by) => {
        const tenant = by === "another quota" ? [quotaOf({ id: "other", amount: 5 })] : [];
        const metered = await world({ key: [quotaOf()], tenant });
        const left = new MeteredWorld({ ...metered.ctx, hasDisconnected: () => true }, metered);
        const caller = by === "its client, which left" ? left : metered;
        await caller.check({ cost: 900, limits: by === "a rule" ? [rule] : [] });
        const taken = async () =>
          (await shared().sql("select taken from quota_balances where subject_id = $1", [metered.key_id]))[0]?.[
            "taken"
          ];
        await expect.poll(async () => Number(await taken())).toBeLessThanOrEqual(2 * 15);
        expect(await metered.balance()).toMatchObject({ spent: 0, remaining: 1_000 });
      },
    );

    it.runIf(backend === "postgres")(
      "of another process that lives count as unspent, however long it uses none of them",
      async () => {
        const metered = await world({ key: [quotaOf()] });
        await using other = await shared().another();
        expect(await metered.in(other.services).admitted(20)).toBe(20);
        for (let i = 0; i < 3; i++) {
          shared().clock.advance(3_000);
          await other.services.quotas.sweep();
          expect(await metered.balance()).toMatchObject({ spent: 20, remaining: 980 });
        }
      },
    );

    it("that leases bring back do not pile up in the process, so a crash costs two blocks however many leases end", async () => {
      const metered = await world({ key: [quotaOf()] });
      await (async () => {
        await using killed = await shared().another();
        const there = metered.in(killed.services);
        const leases = [];
        for (let i = 0; i < 10; i++) leases.push(await there.lease(15));
        for (const { lease_id, granted } of leases)
          expect((await there.return(lease_id, granted)).returned).toBe(granted);
      })();
      shared().clock.advance(5_000);
      const { spent, remaining } = await metered.balance();
      expect([spent + remaining, spent <= 2 * 15]).toEqual([1_000, true]);
    });

    it("are kept when the amount, or whether it denies, changes", async () => {
      const metered = await world({ key: [quotaOf({ amount: 100 })] });
      expect(await metered.admitted(50)).toBe(50);
      const define = async (quotas: unknown) => {
        await shared().sql("update api_keys set quotas = $1 where id = $2", [JSON.stringify(quotas), metered.key_id]);
        shared().services.quotas.definitions.changed(metered.ctx.actor.workspace_id);
      };
      await define([quotaOf({ amount: 60 })]);
      expect(await metered.admitted(20)).toBe(10);
      await define([quotaOf({ amount: 40 })]);
      expect(await metered.admitted(1)).toBe(0);
      await define([]);
      expect((await metered.check()).quotas).toEqual([]);
      await define([quotaOf({ amount: 61 })]);
      expect(await metered.admitted(5)).toBe(1);
      await define([quotaOf({ amount: 61, refill: "weekly" })]);
      expect(await metered.admitted(70)).toBe(61);
    });
  });
}
