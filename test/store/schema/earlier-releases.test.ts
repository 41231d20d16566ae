// Expand, then contract: a process of an earlier release works on today's schema, as it must while a deployment is
// upgraded one process at a time. Every statement that it runs can be prepared, and nothing that it leaves out is
// required.
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
async function migrated(backend: Backend): Promise<AsyncDisposable & { target: DatabaseTarget }> {
  const { target, dispose } = await readyDatabase(backend);
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

/** Unique indexes, checks, foreign keys, and triggers that raise: what may refuse a row. As "table: definition". */
async function constraintsOf(target: DatabaseTarget): Promise<Set<string>> {
  const sql =
    target.kind === "sqlite"
      ? `select m.name || ': ' || group_concat(coalesce(c.name, '?')) as name
           from sqlite_schema m, pragma_index_list(m.name) i, pragma_index_info(i.name) c
           where m.type = 'table' and i."unique" = 1 group by m.name, i.name
         union all
         select m.name || ': ' || f."from" || ' references ' || f."table" from sqlite_schema m, pragma_foreign_key_list(m.name) f
         union all
         select tbl_name || ': ' || sql from sqlite_schema where type = 'trigger' and sql like '%raise(%'`
      : `select indrelid::regclass || ': ' || pg_get_indexdef(indexrelid) as name from pg_index
           where indisunique and indrelid::regclass::text not like 'pg_%'
         union all
         select conrelid::regclass || ': ' || pg_get_constraintdef(oid) from pg_constraint
           where contype in ('c', 'f', 'x') and conrelid <> 0
         union all
         select tgrelid::regclass || ': ' || pg_get_triggerdef(oid) || pg_get_functiondef(tgfoid) from pg_trigger
           where not tgisinternal and pg_get_functiondef(tgfoid) ilike '%raise exception%'`;
  const found = (await rawSql(target, sql)).map(({ name }) => String(name));
  return new Set([...found, ...(target.kind === "sqlite" ? await checksOf(target) : [])]);
}

/** The checks in the texts of SQLite's tables, which no pragma lists. */
async function checksOf(target: DatabaseTarget): Promise<string[]> {
  const tables = await rawSql(target, "select name, sql from sqlite_schema where type = 'table'");
  return tables.flatMap(({ name, sql }) => {
    const text = String(sql).replace(/--.*$/gm, "").replace(/\s+/g, " ");
    return [...text.matchAll(/\bcheck \(/gi)].map(({ index }) => `${String(name)}: ${upToClosing(text.slice(index))}`);
  });
}

function upToClosing(text: string): string {
  let depth = 0;
  const end = [...text].findIndex((char) => {
    if (char === "(") depth++;
    return char === ")" && --depth === 0;
  });
  return text.slice(0, end + 1);
}

type Demands = { columns: Map<string, boolean>; constraints: Set<string> };

const demandsOf = async (target: DatabaseTarget): Promise<Demands> => ({
  columns: await columnsOf(target),
  constraints: await constraintsOf(target),
});

/** A list of values that only grew refuses nothing that it accepted before. */
function isWidened(constraint: string, earlier: ReadonlySet<string>): boolean {
  const shapeOf = (text: string): string => text.replace(/'\w+'(?:::text)?(, )?/g, "").replace(" NOT VALID", "");
  const valuesOf = (text: string): string[] => text.match(/'\w+'/g) ?? [];
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
  // A row of the earlier release leaves new columns at their defaults: what concerns only these refuses none. A foreign
  // key also refuses deletions from the table that it references.
  const concernsOld = (constraint: string): boolean => {
    const [table = ""] = constraint.split(":");
    const [, column, referenced] = /(\w+)\)? references (\w+)/i.exec(constraint) ?? [];
    if (referenced) return before.has(`${table}.${column}`) || tables.has(referenced);
    const words = constraint.slice(table.length).match(/\w+/g) ?? [];
    return !/: check\b/i.test(constraint) || words.some((word) => before.has(`${table}.${word}`));
  };
  const tightened = [...constraints]
    .filter((name) => tables.has(name.split(":")[0]) && !earlier.constraints.has(name) && concernsOld(name))
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

for (const backend of backends) {
  describe(`today's schema on ${backend}`, () => {
    it("accepts every statement of today", async () => {
      await using database = await migrated(backend);
      const statements = (await listStatements())[backend];
      expect(statements.length).toBeGreaterThan(150);
      expect(await refusedBy(database.target, statements)).toEqual([]);
    });

    for (const version of releases) {
      it(`accepts every statement of ${version}`, async () => {
        await using database = await migrated(backend);
        const statements = statementsOf(version)[backend];
        expect(statements.length).toBeGreaterThan(150);
        expect(await refusedBy(database.target, statements)).toEqual([]);
      });

      it(`has every column of ${version}, and requires and constrains no other`, async () => {
        await using old = await openRelease(version, backend);
        const before = await demandsOf(old.target);
        expect(before.columns.size).toBeGreaterThan(100);
        expect(before.constraints.size).toBeGreaterThan(20);
        await (await openStore(old.target, EVENTS)).close();
        expect(await breaksOf(before, old.target)).toEqual([]);
      });
    }

    it("is found to break an earlier release by a foreign key, a check or a trigger", async () => {
      await using database = await migrated(backend);
      const { target } = database;
      const before = await demandsOf(target);
      const added =
        backend === "sqlite"
          ? [
              "alter table tenants add column parent_id text references tenants (id)",
              "alter table tenants add column added text check (added is null or name <> '')",
              "create table plan_groups (id text primary key)",
              "alter table tenants add column harmless text check (harmless in ('a', 'b')) references plan_groups (id)",
              "create trigger added before insert on tenants begin select raise(abort, 'no'); end",
              "create trigger harmless after insert on tenants begin select 1; end",
            ]
          : [
              "alter table tenants add column parent_id text references tenants (id)",
              "alter table tenants add check (name <> '')",
              "create table plan_groups (id text primary key)",
              "alter table tenants add column harmless text check (harmless in ('a', 'b')) references plan_groups (id)",
              "create function added() returns trigger language plpgsql as 'begin raise exception ''no''; end'",
              "create trigger added before insert on tenants for each row execute function added()",
              "create function harmless() returns trigger language plpgsql as 'begin return new; end'",
              "create trigger harmless before insert on tenants for each row execute function harmless()",
            ];
      for (const sql of added) await rawSql(target, sql);
      const broken = await breaksOf(before, target);
      const kinds = broken.map((text) => /references|name <> ''|raise/i.exec(text)?.[0].toLowerCase() ?? text);
      expect(kinds.toSorted()).toEqual(["name <> ''", "raise", "references"]);
    });

    it("is found to break an earlier release by a renamed column, a dropped table, a column without a default and a unique index", async () => {
      await using database = await migrated(backend);
      const { target } = database;
      const before = await demandsOf(target);
      const statements = (await listStatements())[backend];
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
