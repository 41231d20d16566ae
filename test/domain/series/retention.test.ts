// Retention of usage series: what has expired goes, whatever else its group holds, with few statements for many groups.
import { describe, expect, it, vi } from "vitest";
import { runBackends, type Backend } from "../../../harness/databases/backends.ts";
import { expectNoScan } from "../../../harness/databases/plans.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { reapSeries } from "../../../src/domain/series/retention.ts";
import { GRAIN } from "../../../src/domain/series/rollups.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";
import type { Tx } from "../../../src/store/engine/tx.ts";
import { dropEmptyGroups, groupsAfter, reapRollups } from "../../../src/store/queries/series.ts";

const GROUPS = 450;

/** Every group has minutes of now and of 1970, every third one only those of 1970. */
async function fill(fixture: TestServices): Promise<void> {
  const { services, clock } = fixture;
  const { workspace_id } = (await vendorOf(services)).actor;
  const now = Math.floor(clock.now() / HOUR_MS);
  const numbers = `with recursive n (i) as (select 1 union all select i + 1 from n where i < ${GROUPS})`;
  const groups = `select i, $1, 'key', 'p', 'live', 't', 'key ' || i from n`;
  await fixture.sql(
    `insert into usage_groups (id, workspace_id, kind, project_id, env, tenant, name) ${numbers} ${groups}`,
    [workspace_id],
  );
  const columns = "group_id, grain, start, outcome, requests, errors, units, detail";
  const rows = (start: number, where: string): string =>
    `insert into usage_rollups (${columns}) ${numbers} select i, ${GRAIN.minute}, ${start}, 'ok', 1, 0, 1, '{}' from n ${where}`;
  await fixture.sql(rows(1, ""));
  await fixture.sql(rows(now, "where i % 3 > 0"));
}

/** A backlog: three groups with hours and days of 1970 in two outcomes. */
async function fillBacklog(fixture: TestServices): Promise<void> {
  const { workspace_id } = (await vendorOf(fixture.services)).actor;
  const ids = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 3)";
  const groups = "select i, $1, 'key', 'p', 'live', 't', 'key ' || i from n";
  await fixture.sql(
    `insert into usage_groups (id, workspace_id, kind, project_id, env, tenant, name) ${ids} ${groups}`,
    [workspace_id],
  );
  const numbers = "with recursive n (i) as (select 1 union all select i + 1 from n where i < 300)";
  const columns = "group_id, grain, start, outcome, requests, errors, units, detail";
  for (const grain of [GRAIN.hour, GRAIN.day])
    for (const outcome of ["ok", "revoked"])
      await fixture.sql(
        `insert into usage_rollups (${columns}) ${numbers} select g.id, ${grain}, i, '${outcome}', 1, 0, 1, '{}' from n, usage_groups g`,
      );
}

/**
 * Counts the writes of the transactions that the store runs from now on, and the rows that each transaction changed.
 * From the transaction `failFrom` on, none can be committed.
 */
function watchWrites({ services: { store } }: TestServices, failFrom = Infinity) {
  const seen = { writes: 0, rows: [] as number[] };
  const write = store.write.bind(store);
  const watching = (tx: Tx, at: number): Tx =>
    new Proxy(tx, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        if (name !== "run") return value.bind(target) as unknown;
        return async (...args: Parameters<Tx["run"]>) => {
          seen.writes++;
          const changed = await target.run(...args);
          seen.rows[at] = (seen.rows[at] ?? 0) + changed;
          return changed;
        };
      },
    });
  let transactions = 0;
  vi.spyOn(store, "write").mockImplementation((job) => {
    const at = transactions++;
    if (at >= failFrom) return Promise.reject(new Error("timeout"));
    return write({ ...job, work: (tx) => job.work(watching(tx, at)) });
  });
  return seen;
}

const MOST_WRITES: Record<Backend, number> = { sqlite: GROUPS, postgres: GROUPS / 10 };

for (const backend of runBackends)
  describe(`retention of usage series on ${backend}`, () => {
    it("deletes what has expired and the groups that are empty then, with far fewer statements than groups", async () => {
      await using fixture = await testServices(backend);
      await fill(fixture);
      const seen = watchWrites(fixture);
      await reapSeries(fixture.services);
      expect(seen.writes).toBeLessThan(MOST_WRITES[backend]);
      const kept = (GROUPS / 3) * 2;
      expect(await fixture.sql("select count(*) as n from usage_rollups")).toEqual([{ n: kept }]);
      expect(await fixture.sql("select 1 from usage_rollups where start = 1")).toEqual([]);
      expect(await fixture.sql("select count(*) as n from usage_groups")).toEqual([{ n: kept }]);
      expect(await fixture.sql("select id from usage_groups where id % 3 = 0")).toEqual([]);
    });

    it("writes nothing to groups without expired rows", async () => {
      await using fixture = await testServices(backend);
      await fill(fixture);
      await reapSeries(fixture.services);
      const seen = watchWrites(fixture);
      await reapSeries(fixture.services);
      expect(seen).toEqual({ writes: 3, rows: [0, 0, 0] }); // metered hours, usage hours and seen names
    });

    it("deletes a backlog in bounded transactions, and keeps what it did when one fails", async () => {
      await using fixture = await testServices(backend);
      await fillBacklog(fixture);
      const count = async () => Number((await fixture.sql("select count(*) as n from usage_rollups"))[0]?.["n"]);
      const all = await count();
      watchWrites(fixture, 2);
      await expect(reapSeries(fixture.services)).rejects.toThrow("timeout");
      expect(await count()).toBe(all - 2000);
      vi.restoreAllMocks();
      const { rows } = watchWrites(fixture);
      await reapSeries(fixture.services);
      expect(await count()).toBe(0);
      expect(await fixture.sql("select id from usage_groups")).toEqual([]);
      expect(Math.max(...rows)).toBe(1001); // with the row that is the lock
    });

    it("finds the rows of a group by their key", async () => {
      await using fixture = await testServices(backend);
      const groups = JSON.stringify([1, 2]);
      const plan = await expectNoScan(fixture.target, async (on) => {
        await reapRollups.all(on, { groups, grain: GRAIN.minute, before: 2, limit: 9 });
        await groupsAfter.all(on, { after: 0, limit: 9, ...GRAIN });
        await dropEmptyGroups.all(on, { groups });
      });
      if (backend === "sqlite") expect(plan).toContain("(group_id=? AND grain=? AND start<?)");
      else expect(plan).toMatch(/Index Cond: \(\(group_id = ANY \(\$\d+\)\) AND \(grain = 1\) AND \(start < 2\)\)/);
    });
  });
