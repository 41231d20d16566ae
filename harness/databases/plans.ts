// Query plans of near-empty tables: that there is an index for a list, on both databases. That it is chosen where tables
// are large and have statistics is proved by bench/plans.ts.
import { expect } from "vitest";
import type { Query, Reader } from "../../src/store/engine/tx.ts";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { openRaw } from "./raw-sql.ts";

/** The plans of the queries that `run` makes. PostgreSQL takes any index that applies here. */
export async function plansOf(target: DatabaseTarget, run: (on: Reader) => Promise<unknown>): Promise<string> {
  const queries: Query[] = [];
  const reader = {
    dialect: target.kind,
    all: async (query: Query) => (queries.push(query), []),
    first: async (query: Query) => void queries.push(query),
  } as unknown as Reader;
  await run(reader);
  const raw = await openRaw(target);
  try {
    if (target.kind === "postgres") await raw.all("set enable_seqscan = off");
    const plans: string[] = [];
    for (const { sql, values } of queries) {
      const explain = target.kind === "sqlite" ? "explain query plan" : "explain";
      const filled = inline(sql, values as (string | number | null)[]);
      plans.push(...(await raw.all(`${explain} ${filled}`)).map((row) => String(row.detail ?? row["QUERY PLAN"])));
    }
    return plans.join("\n");
  } finally {
    await raw.close();
  }
}

export const sqlLiteral = (value: string | number | null | undefined): string =>
  typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value ?? null);

/** Values as literals, so that PostgreSQL needs no types. */
export function inline(sql: string, values: readonly (string | number | null)[]): string {
  let next = 0;
  return sql.replaceAll(/\?|\$(\d+)/g, (_all, n: string | undefined) => sqlLiteral(values[n ? Number(n) - 1 : next++]));
}

/**
 * A list that is a parameter may be scanned, and so may the rows of a bounded subquery. Returns the plan, for further
 * checks.
 */
export async function expectNoScan(target: DatabaseTarget, run: (on: Reader) => Promise<unknown>): Promise<string> {
  const plan = await plansOf(target, run);
  expect(plan === "").toBe(false);
  expect(/\bSCAN (?!CONSTANT|\d+-ROW|json_each|part\b|walked\b)|Seq Scan/.test(plan) ? plan : null).toBeNull();
  return plan;
}
