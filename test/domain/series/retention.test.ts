// Retention of usage series: what has expired goes, whatever else its group holds, with few statements for many groups.
import { describe, expect, it, vi } from "vitest";
import { backends, type Backend } from "../../../harness/databases/backends.ts";
import { expectNoScan } from "../../../harness/databases/plans.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { reapSeries } from "../../../src/domain/series/retention.ts";
import { GRAIN } from "../../../src/domain/series/rollups.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";
import type { Tx } from "../../../src/store/engine/tx.ts";
import { dropEmptyGroups, reapRollups } from "../../../src/store/queries/series.ts";

const GROUPS = 450;

/** Every group has minutes of now and of 1970, every third one only those of 1970. */
async function fill({ services, sql, clock }: TestServices): Promise<void> {
  const { workspace_id } = (await vendorOf(services)).actor;
  const now = Math.floor(clock.now() / HOUR_MS);
  const numbers = `with recursive n (i) as (select 1 union all select i + 1 from n where i < ${GROUPS})`;
  const groups = `select i, $1, 'key', 'p', 'live', 't', 'key ' || i from n`;
  await sql(`insert into usage_groups (id, workspace_id, kind, project_id, env, tenant, name) ${numbers} ${groups}`, [
    workspace_id,
  ]);
  const columns = "group_id, grain, start, outcome, requests, errors, units, detail";
  const rows = (start: number, where: string): string =>
    `insert into usage_rollups (${columns}) ${numbers} select i, ${GRAIN.minute}, ${start}, 'ok', 1, 0, 1, '{}' from n ${where}`;
  await sql(rows(1, ""));
  await sql(rows(now, "where i % 3 > 0"));
}

/** Counts the writes of the transactions that the store runs from now on. */
function countWrites({ services: { store } }: TestServices): () => number {
  let writes = 0;
  const write = store.write.bind(store);
  const counting = (tx: Tx): Tx =>
    new Proxy(tx, {
      get(target, name) {
        if (name === "run") writes++;
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
  vi.spyOn(store, "write").mockImplementation((job) => write({ ...job, work: (tx) => job.work(counting(tx)) }));
  return () => writes;
}

const MOST_WRITES: Record<Backend, number> = { sqlite: GROUPS, postgres: GROUPS / 10 };

for (const backend of backends)
  describe(`retention of usage series on ${backend}`, () => {
    it("deletes what has expired and the groups that are empty then, with far fewer statements than groups", async () => {
      await using fixture = await testServices(backend);
      await fill(fixture);
      const writes = countWrites(fixture);
      await reapSeries(fixture.services);
      expect(writes()).toBeLessThan(MOST_WRITES[backend]);
      const kept = (GROUPS / 3) * 2;
      expect(await fixture.sql("select count(*) as n from usage_rollups")).toEqual([{ n: kept }]);
      expect(await fixture.sql("select 1 from usage_rollups where start = 1")).toEqual([]);
      expect(await fixture.sql("select count(*) as n from usage_groups")).toEqual([{ n: kept }]);
      expect(await fixture.sql("select id from usage_groups where id % 3 = 0")).toEqual([]);
    });

    it("finds the rows of a group by their key", async () => {
      await using fixture = await testServices(backend);
      const groups = JSON.stringify([1, 2]);
      const plan = await expectNoScan(fixture.target, async (on) => {
        await reapRollups.all(on, { groups, grain: GRAIN.minute, before: 2 });
        await dropEmptyGroups.all(on, { groups });
      });
      if (backend === "sqlite") expect(plan).toContain("(group_id=? AND grain=? AND start<?)");
      else expect(plan).toMatch(/Index Cond: \(\(group_id = ANY \(\$\d+\)\) AND \(grain = 1\) AND \(start < 2\)\)/);
    });
  });
