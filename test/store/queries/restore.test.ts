// What a restore finds out about the database that it replaces.
import { expect, it } from "vitest";
import { findMovedBalances, type ReplacedBalance } from "../../../src/store/queries/restore.ts";
import { withSource } from "../../../src/store/offline/source.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { rawSql } from "../../../harness/databases/raw-sql.ts";
import { testInstance } from "../../../harness/instances/test-instance.ts";

const BALANCES = 2_500;
const [PERIOD, NEXT] = [1_000, 2_000];

it.each(backends)("finds the balances that a restore moves back with few reads on %s", async (backend) => {
  await using instance = await testInstance(backend);
  const { id: workspace_id } = await instance.workspace();
  const balance = (i: number, spent: number, period_start = PERIOD): ReplacedBalance => ({
    subject_id: `subject-${i}`,
    env: "live",
    quota_id: "calls",
    calendar: "none",
    period_start,
    spent,
  });
  const restored = Array.from({ length: BALANCES }, (_, i) => balance(i, 5));
  const rows = restored.map(
    (row) => `('${row.subject_id}', 'live', 'calls', 'none', '${workspace_id}', ${PERIOD}, ${row.spent}, 0, 1)`,
  );
  await rawSql(instance.target, `insert into quota_balances values ${rows.join()}`);
  const more = balance(1, 6);
  const later = balance(2, 1, NEXT);
  const unknown = balance(BALANCES, 1);
  const [less, unspent, other] = [balance(3, 4), balance(4, 0, NEXT), { ...balance(5, 6), env: "test" }];
  const before = [...restored.filter((_, i) => i === 0 || i > 5), more, later, less, unspent, other, unknown];
  await withSource(instance.target, async (source) => {
    let reads = 0;
    const all: typeof source.all = (sql, values) => {
      reads++;
      return source.all(sql, values);
    };
    expect(await findMovedBalances({ ...source, all }, before)).toEqual([more, later, other, unknown]);
    expect(reads).toBe(3);
  });
});
