// Expand, then contract: a process of an earlier release works on today's schema, as it must while a deployment is upgraded
// one process at a time. Every statement that it runs can be prepared, and nothing that it leaves out is required.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openStore } from "../../../src/store/database.ts";
import { readyDatabase, backends, type Backend } from "../../../harness/databases/backends.ts";
import { rawSql, type Row } from "../../../harness/databases/raw-sql.ts";
import { openRelease, RELEASE_FIXTURES, releases } from "../../../harness/instances/release-data.ts";
import { withPostgres } from "../../../src/store/postgres/client.ts";
import { connectSqlite } from "../../../src/store/sqlite/open.ts";
import type { DatabaseTarget } from "../../../src/store/target.ts";
import { listStatements, type StatementList } from "../../../tools/statements.ts";

const EVENTS = { now: Date.now, fatal: () => {} };

const statementsOf = (version: string): StatementList =>
  JSON.parse(readFileSync(join(RELEASE_FIXTURES, `statements-${version}.json`), "utf8")) as StatementList;

/** A database of today's schema. */
async function migrated(back: Backend): Promise<AsyncDisposable & { target: DatabaseTarget }> {
  const { target, dispose } = await readyDatabase(back);
  await (await openStore(target, EVENTS)).close();
  return { target, [Symbol.asyncDispose]: dispose };
}

/** The statements that the database refuses to prepare, each with the reason. */
async function refusedBy(target: DatabaseTarget, statements: readonly string[]): Promise<string[]> {
  const refused: string[] = [];
  const attempt = async (sql: string, prepare: () => unknown): Promise<void> => {
    try {
      await prepare();
    } catch (error) {
      refused.push(`${(error as Error).message}: ${sql}`);
    }
  };
  if (target.kind === "sqlite") {
    const db = connectSqlite(target.file, { timeout: 0 });
    for (const sql of statements) await attempt(sql, () => db.prepare(sql));
    db.close();
  } else
    await withPostgres(target.url, async (client) => {
      for (const [i, sql] of statements.entries()) await attempt(sql, () => client.query(`prepare s${i} as ${sql}`));
    });
  return refused;
}

/** Column by "table.column": whether a row must name it. */
async function columnsOf(target: DatabaseTarget): Promise<Map<string, boolean>> {
  const sql =
    target.kind === "sqlite"
      ? `select m.name || '.' || c.name as name, c."notnull" = 1 and c.dflt_value is null as required
           from sqlite_schema m, pragma_table_info(m.name) c where m.type = 'table' and m.name not like 'sqlite_%'`
      : `select table_name || '.' || column_name as name, is_nullable = 'NO' and column_default is null as required
           from information_schema.columns where table_schema = 'public'`;
  const rows: Row[] = await rawSql(target, sql);
  return new Map(rows.map(({ name, required }) => [String(name), Boolean(required)]));
}

/** Unique indexes and, on PostgreSQL, checks: what may refuse a row. As "table: columns". */
async function constraintsOf(target: DatabaseTarget): Promise<Set<string>> {
  const sql =
    target.kind === "sqlite"
      ? `select m.name || ': ' || group_concat(coalesce(c.name, '?')) as name
           from sqlite_schema m, pragma_index_list(m.name) i, pragma_index_info(i.name) c
           where m.type = 'table' and i."unique" = 1 group by m.name, i.name`
      : `select indrelid::regclass || ': ' || pg_get_indexdef(indexrelid) as name from pg_index
           where indisunique and indrelid::regclass::text not like 'pg_%'
         union all
         select conrelid::regclass || ': ' || pg_get_constraintdef(oid) from pg_constraint
           where contype = 'c' and conrelid <> 0`;
  return new Set((await rawSql(target, sql)).map(({ name }) => String(name)));
}

type Demands = { columns: Map<string, boolean>; constraints: Set<string> };

const demandsOf = async (target: DatabaseTarget): Promise<Demands> => ({
  columns: await columnsOf(target),
  constraints: await constraintsOf(target),
});

/** A list of values that only grew refuses nothing that it accepted before. */
function isWidened(constraint: string, earlier: ReadonlySet<string>): boolean {
  const shapeOf = (text: string): string => text.replace(/'\w+'::text(, )?/g, "").replace(" NOT VALID", "");
  const valuesOf = (text: string): string[] => text.match(/'\w+'::text/g) ?? [];
  const now = valuesOf(constraint);
  const isOld = (old: string): boolean => shapeOf(old) === shapeOf(constraint) && valuesOf(old).length > 0;
  return [...earlier].some((old) => isOld(old) && valuesOf(old).every((value) => now.includes(value)));
}

/** What a process of the earlier schema would trip over. */
async function breaksOf(earlier: Demands, target: DatabaseTarget): Promise<string[]> {
  const before = earlier.columns;
  const { columns: after, constraints } = await demandsOf(target);
  const tables = new Set([...before.keys()].map((name) => name.split(".")[0]));
  const gone = [...before.keys()].filter((name) => !after.has(name)).map((name) => `${name} is gone`);
  const demanded = [...after]
    .filter(([name, required]) => required && tables.has(name.split(".")[0]) && before.get(name) !== true)
    .map(([name]) => `${name} is required`);
  const tightened = [...constraints]
    .filter((name) => tables.has(name.split(":")[0]) && !earlier.constraints.has(name))
    .filter((name) => !isWidened(name, earlier.constraints))
    .map((name) => `${name} is constrained`);
  return [...gone, ...demanded, ...tightened];
}

describe("the list of statements", () => {
  it("exists for every release", () => {
    const listed = readdirSync(RELEASE_FIXTURES).flatMap((name) => /^statements-(.+)\.json$/.exec(name)?.[1] ?? []);
    expect(listed).toEqual([...releases]);
  });
});

for (const back of backends) {
  describe(`today's schema on ${back}`, () => {
    it("accepts every statement of today", async () => {
      await using database = await migrated(back);
      const statements = (await listStatements())[back];
      expect(statements.length).toBeGreaterThan(150);
      expect(await refusedBy(database.target, statements)).toEqual([]);
    });

    for (const version of releases) {
      it(`accepts every statement of ${version}`, async () => {
        await using database = await migrated(back);
        const statements = statementsOf(version)[back];
        expect(statements.length).toBeGreaterThan(150);
        expect(await refusedBy(database.target, statements)).toEqual([]);
      });

      it(`has every column of ${version}, and requires and constrains no other`, async () => {
        await using old = await openRelease(version, back);
        const before = await demandsOf(old.target);
        expect(before.columns.size).toBeGreaterThan(100);
        expect(before.constraints.size).toBeGreaterThan(20);
        await (await openStore(old.target, EVENTS)).close();
        expect(await breaksOf(before, old.target)).toEqual([]);
      });
    }

    it("is found to break an earlier release by a renamed column, a dropped table, a column without a default and a unique index", async () => {
      await using database = await migrated(back);
      const { target } = database;
      const before = await demandsOf(target);
      const statements = (await listStatements())[back];
      await rawSql(target, "alter table api_keys rename column tenant_id to customer_id");
      await rawSql(target, "drop table rate_counters");
      await rawSql(target, "create table added (id integer not null)");
      await rawSql(target, "create unique index added_unique on tenants (name)");
      const refused = await refusedBy(target, statements);
      expect(refused.some((text) => /tenant_id/.test(text) && /api_keys/.test(text))).toBe(true);
      expect(refused.filter((text) => /rate_counters/.test(text)).length).toBeGreaterThan(2);
      expect(refused.length).toBeLessThan(statements.length / 2);
      const broken = await breaksOf(before, target);
      expect(broken).toContain("api_keys.tenant_id is gone");
      expect(broken).toContain("api_keys.customer_id is required");
      expect(broken).toContain("rate_counters.key is gone");
      expect(broken.some((text) => /^tenants: .*name.* is constrained$/.test(text))).toBe(true);
      expect(broken.some((text) => text.startsWith("added"))).toBe(false);
    });
  });
}
