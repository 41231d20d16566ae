// What nodes owe: units that they admitted without asking are charged, even beyond zero, and once for each id.
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { MeteredWorld, quotaOf } from "../../../harness/ratelimit/metered.ts";
import { sharedServices, testServices } from "../../../harness/instances/test-services.ts";
import { ownerOf } from "../../../src/domain/core/actor.ts";
import { createGrant } from "../../../src/domain/quotas/grants.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";
import { fail } from "../../../src/kernel/errors.ts";

for (const backend of runBackends) {
  describe(`quotas on ${backend}`, () => {
    const shared = sharedServices(backend);
    const world = MeteredWorld.creatorIn(shared);

    it("charge what is owed even beyond zero", async () => {
      const metered = await world({ key: [quotaOf({ amount: 10 })] });
      const { allowed, quotas } = await metered.check({ cost: 0, owed: 25 });
      expect([allowed, quotas[0]?.remaining, quotas[0]?.exceeded]).toEqual([false, 0, true]);
      expect((await metered.balance()).spent).toBe(25);
    });

    it("are charged once for what is owed, however often and wherever it arrives under the same id", async () => {
      const quota = { amount: 100, refill: "none" } as const;
      const metered = await world({ key: [quotaOf({ ...quota, id: "own" })], tenant: [quotaOf(quota)] });
      await using other = await shared().another();
      const owed_id = crypto.randomUUID();
      const report = { cost: 0, owed: 7, owed_id };
      const there = metered.in(other.services);
      await Promise.all([metered.check(report), metered.check(report), there.check(report), there.check(report)]);
      await there.check({ ...report, owed: 9 });
      await other.services.quotas.close();
      const left = async (charge: typeof report) =>
        (await metered.check(charge)).quotas.map(({ remaining }) => remaining);
      expect(await left(report)).toEqual([91, 91]);
      shared().clock.advance(7 * DAY_MS);
      expect(await left({ ...report, owed: 10 })).toEqual([90, 90]);
      expect(await left({ ...report, owed_id: crypto.randomUUID() })).toEqual([83, 83]);
      shared().clock.advance(-7 * DAY_MS);
    });

    it.each([[0], [5_000]])(
      "admit nothing once what is owed has used up the balance, with %i granted",
      async (units) => {
        const metered = await world({ tenant: [quotaOf({ amount: 64_000 })] });
        const { ctx, tenant_id } = metered;
        if (units > 0) await createGrant(ctx, { scope: "tenant", tenant_id, quota_id: "calls" }, { units });
        const lease = await metered.lease(10);
        await metered.check();
        await metered.check({ cost: 0, owed: 63_989 + units });
        expect(await metered.balance()).toMatchObject({ remaining: 0, exceeded: false });
        expect([await metered.admitted(20), (await metered.lease(5)).granted]).toEqual([0, 0]);
        // What comes back of a lease was not spent.
        expect((await metered.return(lease.lease_id, 3)).returned).toBe(3);
        expect(await metered.admitted(20)).toBe(3);
        expect(await metered.balance()).toMatchObject({ spent: 64_000 + units, remaining: 0, exceeded: false });
      },
    );

    it.each(["share_full", "storage_full", "read_only"] as const)(
      "lose no block with a charge of owed units that is refused as %s",
      async (refusal) => {
        const { services } = shared();
        const metered = await world({ key: [quotaOf({ amount: 64_000 })] });
        await metered.check();
        const refused = vi.spyOn(services.store, "write").mockRejectedValue(fail(refusal));
        onTestFinished(() => refused.mockRestore());
        await expect(metered.check({ cost: 0, owed: 5 })).rejects.toMatchObject({ failure: refusal });
        refused.mockRestore();
        await services.quotas.sweep();
        await metered.check({ cost: 0, owed: 5 });
        expect(await metered.balance()).toMatchObject({ spent: 6, remaining: 63_994 });
      },
    );

    it.runIf(backend === "postgres")("give back what other processes hold of a balance that they use up", async () => {
      const metered = await world({ key: [quotaOf({ amount: 64_000 })] });
      await using other = await shared().another();
      const there = metered.in(other.services);
      await there.check();
      await metered.check({ cost: 0, owed: 63_999 });
      await expect.poll(() => metered.balance()).toMatchObject({ spent: 64_000, held: 0, remaining: 0 });
      await expect.poll(() => other.services.quotas.metrics.returned).toBe(1);
      expect(await there.admitted(20)).toBe(0);
    });

    it("charge what is owed but store no new id, once the environment has written its share of the day", async () => {
      const flags = { throttle: "on", writes_mb_per_day: "8" };
      await using small = await testServices(backend, { flags });
      const { services } = small;
      const metered = await MeteredWorld.create(services, { key: [quotaOf({ amount: 100 })] });
      const ids = () => small.sql("select fingerprint from kept_answers");
      const left = async (owed: number, owed_id: string) =>
        (await metered.check({ cost: 0, owed, owed_id })).quotas[0]?.remaining;
      const [known, unknown] = [crypto.randomUUID(), crypto.randomUUID()];
      const disk = services.shares.of("disk");
      const before = disk.usedBy(ownerOf(metered.ctx.actor));
      expect(await left(5, known)).toBe(95);
      expect(disk.usedBy(ownerOf(metered.ctx.actor)) - before).toBeGreaterThan(200);
      disk.take(ownerOf(metered.ctx.actor), 8 * 1024 * 1024);
      expect(await left(6, known)).toBe(94);
      expect(await left(6, known)).toBe(94);
      expect(await left(7, unknown)).toBe(87);
      expect(await left(7, unknown)).toBe(80);
      expect(await ids()).toEqual([{ fingerprint: "6" }]);
      small.clock.advance(DAY_MS);
      expect([await left(7, unknown), await left(7, unknown)]).toEqual([73, 73]);
      expect(await ids()).toHaveLength(2);
    });
  });
}
