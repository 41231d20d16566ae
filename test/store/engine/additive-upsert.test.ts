// Additive upserts of jobs in one batch: each row is written once, with the sum of all jobs.
import { describe, expect, it } from "vitest";
import { record } from "../../../src/domain/core/record.ts";
import type { Tx } from "../../../src/store/engine/tx.ts";
import { insertTenant } from "../../../src/store/queries/tenants.ts";
import { usageDayUpsert, tenantMonthUpsert } from "../../../src/store/queries/usage.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";

const key = (n: number): string => `01890a5d-ac96-774b-bcce-${String(n).padStart(12, "0")}`;

async function figures(fixture: TestServices) {
  const days = await fixture.sql("select key_id, day, requests, errors from usage_days order by key_id, day");
  const months = await fixture.sql(
    "select month, requests, first_seen_at, last_seen_at from usage_tenant_months order by month",
  );
  return { days, months };
}

for (const backend of backends) {
  describe(`additive upserts on ${backend}`, () => {
    /** Several jobs that add to the same rows; `also` may make one of them fail. */
    async function addAtOnce(fixture: TestServices, batch: boolean, also: (i: number, tx: Tx) => Promise<unknown>) {
      const { actor } = await vendorOf(fixture.services);
      const { workspace_id } = actor;
      const add = (i: number) =>
        record(
          fixture.services,
          async (tx) => {
            const day = (n: number, requests: number) => ({
              workspace_id,
              key_id: key(n),
              day: 20_000,
              requests,
              errors: 1,
            });
            await tx.upsertAdditive(usageDayUpsert, [day(2, 1), day(1, 10 * i)]);
            const owner = { workspace_id, env: "live" as const, tenant_id: key(7), project_id: key(8) };
            await tx.upsertAdditive(tenantMonthUpsert, [
              { ...owner, month: 650, requests: 0.5, first_seen_at: 100 - i, last_seen_at: i },
            ]);
            await also(i, tx);
          },
          { batch },
        );
      return { workspace_id, results: await Promise.allSettled([1, 2, 3, 4, 5].map(add)) };
    }

    it.each([true, false])("sum the rows of concurrent jobs, batch: %s", async (batch) => {
      await using fixture = await testServices(backend);
      await addAtOnce(fixture, batch, async () => {});
      expect(await figures(fixture)).toEqual({
        days: [
          { key_id: key(1), day: 20_000, requests: 150, errors: 5 },
          { key_id: key(2), day: 20_000, requests: 5, errors: 5 },
        ],
        months: [{ month: 650, requests: 2.5, first_seen_at: 95, last_seen_at: 5 }],
      });
      await addAtOnce(fixture, batch, async () => {});
      expect((await figures(fixture)).days.map(({ requests }) => requests)).toEqual([300, 10]);
    });

    it("add nothing of a failing job and the other jobs once, though the batch runs again", async () => {
      await using fixture = await testServices(backend);
      const { actor } = await vendorOf(fixture.services);
      const taken = (tx: Tx): Promise<void> =>
        insertTenant.insertDeferred(tx, {
          id: key(9),
          workspace_id: actor.workspace_id,
          external_id: "taken",
          name: null,
          meta: "{}",
          embed_epoch: 1,
          created_env: "live",
          created_at: 1,
          updated_at: 1,
          deleted_at: null,
          suspended_at: null,
          suspended_reason: null,
          plan_id: null,
          rate_limits: null,
          allowed_cidrs: "[]",
          ip_mode: "enforce" as const,
          quotas: null,
        });
      const { results } = await addAtOnce(fixture, true, async (i, tx) => {
        if (i === 2 || i === 4) await taken(tx);
      });
      expect(results.map(({ status }) => status)).toEqual([
        "fulfilled",
        "fulfilled",
        "fulfilled",
        "rejected",
        "fulfilled",
      ]);
      const { days, months } = await figures(fixture);
      expect(days.map(({ requests }) => requests)).toEqual([10 * (1 + 2 + 3 + 5), 4]);
      expect(months).toEqual([{ month: 650, requests: 2, first_seen_at: 95, last_seen_at: 5 }]);
    });
  });
}
