// Retention of quotas: grants and balances are deleted long after their end, and nothing that still counts is.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices, type TestServices } from "../../../harness/instances/test-services.ts";
import { MeteredWorld, quotaOf } from "../../../harness/ratelimit/metered.ts";
import { createGrant, listGrants, voidGrant } from "../../../src/domain/quotas/grants.ts";
import { reapBalances, reapGrants } from "../../../src/domain/quotas/retention.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

const none = quotaOf({ amount: 0, refill: "none" });

for (const backend of runBackends) {
  describe(`retention of quotas on ${backend}`, () => {
    let fixture: TestServices;
    let start: number;
    beforeAll(async () => {
      fixture = await testServices(backend);
      start = fixture.clock.now();
    });
    afterAll(() => fixture[Symbol.asyncDispose]());

    const target = ({ key_id }: MeteredWorld) => ({ scope: "key", key_id, quota_id: none.id }) as const;
    const reasons = async (metered: MeteredWorld) => {
      const { data } = await listGrants(metered.ctx, target(metered), { limit: 50 });
      return data.map(({ reason }) => reason).toReversed();
    };

    it("deletes grants 400 days after they ended, except those with a reference", async () => {
      const metered = await MeteredWorld.create(fixture.services, { key: [none] });
      const grant = (reason: string, more: { reference?: string; expires_at?: number } = {}) =>
        createGrant(metered.ctx, target(metered), { units: 2, reason, ...more });
      await grant("spent");
      await grant("spent, with a reference", { reference: "invoice-1" });
      expect(await metered.admitted(5)).toBe(4);
      await voidGrant(metered.ctx, (await grant("voided")).grant.id);
      await grant("expired early", { expires_at: start + DAY_MS });
      await grant("expired late", { expires_at: start + 300 * DAY_MS });
      await grant("open");
      fixture.clock.advance(399 * DAY_MS);
      expect(await reapGrants(fixture.services)).toBe(0);
      fixture.clock.advance(2.5 * DAY_MS);
      await grant("new");
      expect(await reapGrants(fixture.services)).toBe(3);
      expect(await reasons(metered)).toEqual(["spent, with a reference", "expired late", "open", "new"]);
      expect((await metered.balance()).granted).toBe(4);
      const again = await grant("spent, with a reference", { reference: "invoice-1" });
      expect(again.isReplay).toBe(true);
    });

    it("gives units back to the period when their grant was deleted meanwhile", async () => {
      const metered = await MeteredWorld.create(fixture.services, { key: [none] });
      await createGrant(metered.ctx, target(metered), { units: 1 });
      fixture.clock.advance(401 * DAY_MS);
      const { lease_id } = await metered.lease(1);
      await reapGrants(fixture.services);
      expect(await reasons(metered)).toEqual([]);
      expect((await metered.return(lease_id, 1)).returned).toBe(1);
      await fixture.services.quotas.close();
      expect((await metered.balance()).remaining).toBe(1);
      expect(await metered.admitted(2)).toBe(1);
    });

    it("deletes balances that no quota has used for 400 days", async () => {
      const metered = await MeteredWorld.create(fixture.services, { key: [none] });
      await metered.check({ owed: 3 });
      await fixture.sql("update api_keys set quotas = null where id = $1", [metered.key_id]);
      const rows = () => fixture.sql("select taken from quota_balances where subject_id = $1", [metered.key_id]);
      fixture.clock.advance(399 * DAY_MS);
      await reapBalances(fixture.services);
      expect(await rows()).toHaveLength(1);
      fixture.clock.advance(2 * DAY_MS);
      const [row = {}] = await fixture.sql("select * from quota_balances where subject_id = $1", [metered.key_id]);
      const columns = Object.keys(row);
      const copies = columns.map((name) => (name === "quota_id" ? "'q' || i" : name));
      await fixture.sql(
        `with recursive n(i) as (select 1 union all select i + 1 from n where i < 250)
         insert into quota_balances (${columns.join()}) select ${copies.join()} from quota_balances, n where subject_id = $1`,
        [metered.key_id],
      );
      expect(await reapBalances(fixture.services)).toBeGreaterThan(250);
      expect(await rows()).toEqual([]);
    });
  });
}
