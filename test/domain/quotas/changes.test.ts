// Quotas and grants that change while units of them are held: what was taken before does not outlive the change.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices, type TestServices } from "../../../harness/instances/test-services.ts";
import { MeteredWorld, quotaOf } from "../../../harness/ratelimit/metered.ts";
import { ownerOf } from "../../../src/domain/core/actor.ts";
import { editKey } from "../../../src/domain/keys/edits.ts";
import { editTenant } from "../../../src/domain/workspaces/tenants.ts";
import { periodAt } from "../../../src/kernel/quotas/period.ts";
import { createGrant, voidGrant } from "../../../src/domain/quotas/grants.ts";

const none = quotaOf({ amount: 0, refill: "none" });

for (const backend of runBackends) {
  describe(`changes of quotas on ${backend}`, () => {
    let fixture: TestServices;
    beforeAll(async () => {
      fixture = await testServices(backend);
    });
    afterAll(() => fixture[Symbol.asyncDispose]());

    /** A key that can spend 640 units of a grant, and nothing else. */
    const granted = async () => {
      const metered = await MeteredWorld.create(fixture.services, { key: [none] });
      const target = { scope: "key", key_id: metered.key_id, quota_id: none.id } as const;
      const { grant } = await createGrant(metered.ctx, target, { units: 640 });
      return { metered, grant };
    };

    it("keep units of a voided grant from being spent when their lease is returned", async () => {
      const { metered, grant } = await granted();
      const lease = await metered.lease(10);
      expect(lease.granted).toBe(10);
      expect((await voidGrant(metered.ctx, grant.id)).remaining).toBe(0);
      expect((await metered.return(lease.lease_id, 10)).returned).toBe(10);
      expect(await metered.admitted(20)).toBe(0);
      expect(await metered.balance()).toMatchObject({ spent: 0, granted: 0, remaining: 0 });
    });

    it("take back what a request took of a grant while it was being voided", async () => {
      const { metered, grant } = await granted();
      await metered.check();
      const { quotas } = fixture.services;
      const giveBack = quotas.giveBack.bind(quotas);
      let isFirst = true;
      quotas.giveBack = async (...args) => {
        await giveBack(...args);
        if (!isFirst) return;
        isFirst = false;
        await metered.check();
      };
      await voidGrant(metered.ctx, grant.id);
      quotas.giveBack = giveBack;
      expect(isFirst).toBe(false);
      expect(await metered.admitted(20)).toBe(0);
      expect((await metered.balance()).spent).toBe(2);
    });

    it.each([
      ["Europe/Berlin", "europe/BERLIN"],
      ["US/Eastern", "us/eastern"], // an alias, which a runtime may not list
      ["Asia/Kolkata", "asia/kolkata"],
      ["Asia/Calcutta", "asia/calcutta"],
    ])("keep what is spent when the time zone %s is spelled %s", async (before, after) => {
      const inZone = (time_zone: string) => quotaOf({ amount: 2, refill: "monthly", time_zone });
      const metered = await MeteredWorld.create(fixture.services, { key: [inZone(before)], tenant: [inZone(before)] });
      expect(await metered.admitted(3)).toBe(2);
      const { ctx, key_id, tenant_id } = metered;
      await editKey(ctx, key_id, { quotas: [inZone(after)] });
      await editTenant(ctx, tenant_id, { quotas: [inZone(after)] });
      expect(await metered.admitted(3)).toBe(0);
      expect(await metered.balance()).toMatchObject({ time_zone: after, spent: 2, remaining: 0 });
      await editKey(ctx, key_id, { quotas: [] });
      expect(await metered.admitted(1)).toBe(0); // by the tenant's
    });

    it("find the balance that an earlier version stored under the zone as it was spelled", async () => {
      const quota = quotaOf({ amount: 5, refill: "monthly", time_zone: "us/eastern" });
      const metered = await MeteredWorld.create(fixture.services, { key: [quota] });
      const { key_id, ctx } = metered;
      const period_start = periodAt(quota, fixture.clock.now()).start;
      const insert = (zone: string, start: number, taken: number) => {
        const row = [key_id, `monthly/1/${zone}`, ctx.actor.workspace_id, start, taken, taken, start];
        return fixture.sql("insert into quota_balances values ($1, 'live', 'calls', $2, $3, $4, $5, $6, $7)", row);
      };
      await insert("US/Eastern", period_start, 3);
      await insert("us/Eastern", period_start - 1, 5); // before a change of the spelling
      expect(await metered.balance()).toMatchObject({ spent: 3, remaining: 2 });
      expect(await metered.admitted(5)).toBe(2);
      expect(await metered.balance()).toMatchObject({ spent: 5, remaining: 0 });
      const rows = await fixture.sql("select calendar, taken from quota_balances where subject_id = $1", [key_id]);
      expect(rows.map(({ calendar, taken }) => `${String(calendar)} ${String(taken)}`).toSorted()).toEqual([
        "monthly/1/US/Eastern 5",
        "monthly/1/us/Eastern 5",
      ]);
    });

    it("of one workspace make no other read its own again", async () => {
      const [own, other] = [await granted(), await granted()];
      const { quotas, store } = fixture.services;
      const isKnown = async ({ ctx, key_id }: MeteredWorld): Promise<boolean> => {
        const { workspace_id } = ctx.actor;
        const subject = { workspace_id, key_id, tenant_id: null, env: "live" } as const;
        const first = vi.spyOn(store.read, "first");
        await quotas.definitions.of(store.read, ownerOf(ctx.actor), subject);
        const reads = first.mock.calls.length;
        first.mockRestore();
        return reads === 0;
      };
      for (const { metered } of [own, other]) await metered.check();
      quotas.definitions.changed(other.metered.ctx.actor.workspace_id);
      expect([await isKnown(own.metered), await isKnown(other.metered)]).toEqual([true, false]);
    });

    it("give back the units that were being taken under another amount", async () => {
      const { ctx, key_id } = await MeteredWorld.create(fixture.services, { key: [quotaOf({ amount: 1_000 })] });
      const { quotas } = fixture.services;
      const metered = { scope: "key", source: "key", subject_id: key_id, env: "live" } as const;
      const open = (amount: number) => {
        const defined = { ...metered, quota: quotaOf({ amount }) };
        return { metered: defined, holding: quotas.open(ownerOf(ctx.actor), ctx.actor.workspace_id, defined) };
      };
      const taking = quotas.fetch(open(1_000), 1);
      const { holding, metered: lowered } = open(1);
      await taking;
      expect([holding.unspent, holding.spendable(lowered.quota)]).toEqual([15, 0]);
      await quotas.fetch(open(1), 1);
      const rows = await fixture.sql("select taken from quota_balances where subject_id = $1", [key_id]);
      expect(rows).toEqual([{ taken: 1 }]);
    });

    it("keep units from being spent beyond a lowered amount when their lease is returned", async () => {
      const metered = await MeteredWorld.create(fixture.services, { key: [quotaOf({ amount: 1_000 })] });
      const lease = await metered.lease(15);
      expect(lease.granted).toBe(15);
      const quotas = JSON.stringify([quotaOf({ amount: 0 })]);
      await fixture.sql("update api_keys set quotas = $1 where id = $2", [quotas, metered.key_id]);
      fixture.services.quotas.definitions.changed(metered.ctx.actor.workspace_id);
      expect(await metered.admitted(1)).toBe(0);
      expect((await metered.return(lease.lease_id, 15)).returned).toBe(15);
      expect(await metered.admitted(20)).toBe(0);
      expect(await metered.balance()).toMatchObject({ spent: 0, remaining: 0 });
    });
  });
}
