// Balances, and what is left in the response to a check, are right at once after a grant, a period or a grant's end:
// also while this process holds units of them.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices, type TestServices } from "../../../harness/instances/test-services.ts";
import { MeteredWorld, quotaOf } from "../../../harness/ratelimit/metered.ts";
import { createGrant } from "../../../src/domain/quotas/grants.ts";
import type { QuotaInput } from "../../../src/kernel/quotas/quota.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`balances on ${backend}`, () => {
    let fixture: TestServices;
    beforeAll(async () => {
      fixture = await testServices(backend);
    });
    afterAll(() => fixture[Symbol.asyncDispose]());

    const world = async (fields: Partial<QuotaInput>) => {
      const metered = await MeteredWorld.create(fixture.services, { tenant: [quotaOf(fields)] });
      const target = { scope: "tenant", tenant_id: metered.tenant_id, quota_id: "calls" } as const;
      const grant = (units: number, lifeMs?: number) => {
        const expires_at = lifeMs === undefined ? undefined : fixture.clock.now() + lifeMs;
        return createGrant(metered.ctx, target, { units, expires_at });
      };
      return Object.assign(metered, { grant });
    };
    const left = async (metered: MeteredWorld, cost = 1) => (await metered.check({ cost })).quotas[0]?.remaining;

    it("count a grant in the next response", async () => {
      const metered = await world({ amount: 64_000 });
      await metered.check();
      await metered.grant(5_000);
      expect([await left(metered, 0), await left(metered)]).toEqual([68_999, 68_998]);
      expect((await metered.balance()).remaining).toBe(68_998);
    });

    it("count a grant in the next response although a transaction from before it ends after it", async () => {
      const metered = await world({ amount: 0 });
      await metered.check();
      const { quotas } = fixture.services;
      const [holding] = quotas.spending(`${metered.tenant_id}/`);
      const { stored } = holding!;
      const { promise, resolve } = Promise.withResolvers<void>();
      holding!.pending = promise.then(() => {
        holding!.know(stored!, fixture.clock.now());
        holding!.pending = null;
      });
      const granting = metered.grant(640);
      const grants = () => fixture.sql("select id from quota_grants where subject_id = $1", [metered.tenant_id]);
      await expect.poll(grants).toHaveLength(1);
      resolve();
      await granting;
      const { allowed, quotas: states } = await metered.check();
      expect([allowed, states[0]?.remaining]).toEqual([true, 639]);
    });

    it("keep the units of a grant at the end of a period", async () => {
      const metered = await world({ amount: 0, refill: "daily" });
      await metered.grant(64_000);
      await metered.check();
      expect(await metered.balance()).toMatchObject({ spent: 1, granted: 63_999, remaining: 63_999 });
      fixture.clock.advance(DAY_MS);
      expect(await metered.balance()).toMatchObject({ spent: 0, granted: 63_999, remaining: 63_999 });
      expect([await left(metered, 0), await left(metered)]).toEqual([63_999, 63_998]);
      expect(await metered.balance()).toMatchObject({ spent: 1, granted: 63_998, remaining: 63_998 });
    });

    it("admit the last unit of a grant at the end of a period, and say so", async () => {
      const metered = await world({ amount: 0, refill: "daily" });
      await metered.grant(2);
      await metered.check(); // takes the second one too
      fixture.clock.advance(DAY_MS);
      const peek = await metered.check({ cost: 0 });
      expect([peek.allowed, peek.quotas[0]?.remaining]).toEqual([true, 1]);
      expect((await metered.check()).allowed).toBe(true);
      expect((await metered.check()).allowed).toBe(false);
    });

    it("drop the units of a grant at its end, and no others", async () => {
      const metered = await world({ amount: 0 });
      await metered.grant(64_000, 5_000);
      await metered.check();
      fixture.clock.advance(5_000);
      expect(await metered.balance()).toMatchObject({ spent: 1, granted: 0, remaining: 0, exceeded: false });
      const denied = await metered.check();
      expect([denied.allowed, denied.quotas[0]?.remaining]).toEqual([false, 0]);
      expect(await metered.balance()).toMatchObject({ spent: 1, granted: 0, remaining: 0, exceeded: false });
    });

    it("keep the units of the amount at the end of a grant that was taken with them", async () => {
      const metered = await world({ amount: 64_000 });
      await metered.grant(10, 5_000); // ends first, so it is spent first
      await metered.check();
      fixture.clock.advance(5_000);
      expect(await metered.balance()).toMatchObject({ spent: 1, granted: 0, remaining: 64_000 });
      expect([await left(metered, 0), await left(metered)]).toEqual([64_000, 63_999]);
      expect(await metered.balance()).toMatchObject({ spent: 2, granted: 0, remaining: 63_999 });
    });

    it("drop a grant at its end although the process holds units of the amount alone", async () => {
      const metered = await world({ amount: 64_000 });
      await metered.check();
      await metered.grant(10_000, 5_000);
      expect(await left(metered)).toBe(73_998);
      fixture.clock.advance(5_000);
      expect([await left(metered, 0), await left(metered)]).toEqual([63_998, 63_997]);
    });

    it.runIf(backend === "postgres")("count a block once that another process gives back during the read", async () => {
      const metered = await world({ amount: 64_000 });
      await using other = await fixture.another();
      await metered.in(other.services).check();
      fixture.clock.advance(4_000);
      await other.services.quotas.sweep(); // it has published what it holds
      const { read } = fixture.services.store;
      const all = read.all.bind(read);
      const spy = vi.spyOn(read, "all").mockImplementation(async (query) => {
        const rows = await all(query);
        if (query.sql.includes("quota_balances")) await other.services.quotas.recall(`${metered.tenant_id}/`);
        return rows;
      });
      expect(await metered.balance()).toMatchObject({ spent: 1, remaining: 63_999 });
      spy.mockRestore();
      expect(await metered.balance()).toMatchObject({ spent: 1, remaining: 63_999 });
    });

    it.runIf(backend === "postgres")("count what another process holds a sweep after the end of a period", async () => {
      const metered = await world({ amount: 0, refill: "daily" });
      await metered.grant(64_000);
      await using other = await fixture.another();
      fixture.clock.advance(DAY_MS - (fixture.clock.now() % DAY_MS) - 1_000);
      await metered.in(other.services).check();
      await other.services.quotas.sweep(); // it has published what it holds
      fixture.clock.advance(1_000);
      await other.services.quotas.sweep();
      expect(await metered.balance()).toMatchObject({ spent: 0, granted: 63_999, remaining: 63_999 });
    });
  });
}
