// Applies migrations/NNNN_name.sql and, where SQL is not portable, its .sqlite.sql or .postgres.sql part. Forward only;
// all pending migrations in one transaction. Refuses a database with a changed history or a newer schema. `create index
// concurrently` is the exception: PostgreSQL builds such an index after the transaction, while other processes write.
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { ExitError } from "../../kernel/exit-error.ts";
import { listFiles, readText } from "../../platform/packaged-files.ts";
import type { Driver } from "../engine/driver.ts";
import type { Dialect } from "../engine/tx.ts";
import { MIGRATION_LOCK } from "../postgres/advisory-locks.ts";
import { SELECT_APPLIED, type Applied } from "./applied.ts";
import { buildIndexes, CONCURRENT_INDEX, findMissing } from "./indexes.ts";

export type Migration = { version: number; name: string; checksum: string; sql: string };

/**
 * On PostgreSQL the job that recounts them does this: reading all records would hold the locks of the migrations before
 * it.
 */
const COUNTED_CELLS = /^insert into idempotency_cells [^;]+;$/gm;

/** This build must not use the database. The message says what to do. */
export class SchemaRefused extends ExitError {
  constructor(message: string) {
    super(message, 2);
  }
}

/** The database was migrated by a newer version of Keyrack. */
export class SchemaTooNew extends SchemaRefused {
  /** What is wrong, without what to do. */
  readonly problem: string;
  /** The newest schema that this build knows. */
  readonly known: number;
  constructor({ version, name }: Applied, known: number) {
    const problem = `The database has schema ${version} (${name}), which is newer than this version of Keyrack (schema ${known}).`;
    super(`${problem} Use a newer Keyrack, or restore a backup made before the upgrade.`);
    this.problem = problem;
    this.known = known;
  }
}

const PLACEHOLDERS: Record<Dialect, Record<string, string>> = {
  sqlite: {
    id: "text",
    int: "integer",
    real: "real",
    bytes: "blob",
    table: "strict",
    rowless: "strict, without rowid",
  },
  postgres: {
    id: 'text collate "C"',
    int: "bigint",
    real: "double precision",
    bytes: "bytea",
    table: "",
    rowless: "",
  },
};

export function expand(sql: string, dialect: Dialect): string {
  return sql
    .replace(/\{json:(\w+)\}/g, dialect === "sqlite" ? "check ($1 is null or json_valid($1))" : "")
    .replace(/\{(\w+)\}/g, (_all, name: string) => {
      const text = PLACEHOLDERS[dialect][name];
      if (text === undefined) throw new Error(`unknown placeholder {${name}} in a migration`);
      return text;
    });
}

const loaded: Partial<Record<Dialect, Migration[]>> = {};

/** The migrations of this build in order, read once per process. */
export function loadMigrations(dialect: Dialect): readonly Migration[] {
  return (loaded[dialect] ??= readMigrations(dialect));
}

function readMigrations(dialect: Dialect): Migration[] {
  const files = listFiles("migrations");
  const names = files.filter((file) => /^\d{4}_[a-z0-9_]+\.sql$/.test(file));
  return names.map((file) => {
    const name = file.slice(0, -".sql".length);
    const own = files.filter((other) => other.startsWith(`${name}.`) && other !== file);
    const texts = [file, ...own].map((part) => readText(`migrations/${part}`));
    const mine = own.filter((part) => part === `${name}.${dialect}.sql`).map((part) => readText(`migrations/${part}`));
    return {
      version: Number(name.slice(0, 4)),
      name,
      checksum: createHash("sha256").update(texts.join("\n")).digest("hex"),
      sql: [expand(texts[0] ?? "", dialect), ...mine].join("\n"),
    };
  });
}

/** The schema that this build knows: the number of its newest migration. */
export function schemaVersion(): number {
  return Math.max(...loadMigrations("sqlite").map(({ version }) => version));
}

const HISTORY = `create table if not exists schema_migrations (
  version bigint not null primary key, name text not null, checksum text not null, applied_at bigint not null)`;

const READ_APPLIED = { sql: SELECT_APPLIED, values: [] };
const FIND_HISTORY: Record<Dialect, string> = {
  sqlite: "select 1 as found from sqlite_schema where name = 'schema_migrations'",
  postgres: "select 1 as found where to_regclass('schema_migrations') is not null",
};
const FIND_WORKSPACE = { sql: "select 1 as found from workspaces limit 1", values: [] };

/** What opening a database would change. */
export type MigrationPlan = {
  /** The schema of the database; 0 = it is empty. */
  from: number;
  /** The newest schema of this build. */
  to: number;
  pending: string[];
  /** Whether it holds a workspace. */
  inUse: boolean;
};

export async function planMigrations({ dialect, reader }: Driver): Promise<MigrationPlan> {
  const known = loadMigrations(dialect);
  const to = known.at(-1)?.version ?? 0;
  const history = await reader.first({ sql: FIND_HISTORY[dialect], values: [] });
  const applied = history ? await reader.all<Applied>(READ_APPLIED) : [];
  const pending = pendingMigrations(applied, known).map(({ name }) => name);
  const inUse = applied.length > 0 && (await reader.first(FIND_WORKSPACE)) !== undefined;
  return { from: applied.at(-1)?.version ?? 0, to, pending, inUse };
}

/** Throws if a migration is pending: for a database opened read-only. */
export async function assertMigrated(driver: Driver): Promise<void> {
  const [pending] = pendingMigrations(await driver.reader.all<Applied>(READ_APPLIED), loadMigrations(driver.dialect));
  if (pending) throw new SchemaRefused(`Migration ${pending.name} is pending, and a read-only start cannot apply it.`);
}

// Running processes use the tables during a migration. One that waits for a table lock makes them wait behind it, so
// it gives up soon and tries again; a backup holds its locks for as long as it takes.
const LOCK_TABLES = "set local lock_timeout = '1s'";
const LOCK_MIGRATIONS = `set local statement_timeout = 0; set local lock_timeout = 0;
  select pg_advisory_xact_lock(${MIGRATION_LOCK}); ${LOCK_TABLES}`;
const ATTEMPTS_MAX = 60;
const RETRY_MS = 500;

type MigrationOptions = { now: number; known?: readonly Migration[]; leaveIndexes?: boolean | undefined };

/** Applies pending migrations and returns their names. `leaveIndexes`: without those that are built afterwards. */
export async function migrate(driver: Driver, options: MigrationOptions): Promise<string[]> {
  const { now, known = loadMigrations(driver.dialect), leaveIndexes = false } = options;
  for (let attempt = 1; ; attempt++) {
    try {
      const applied = await migrateOnce(driver, known, now);
      if (driver.dialect === "postgres" && (applied.length > 0 || !leaveIndexes))
        await buildIndexes(sessionOf(driver), known);
      return applied;
    } catch (error) {
      await driver.writer.exec("rollback").catch(() => {});
      if (driver.classifyError(error) !== "busy" || attempt === ATTEMPTS_MAX) throw error;
      await sleep(RETRY_MS);
    }
  }
}

/** For a process that may not build them. */
export async function warnOfMissingIndexes({ dialect, reader }: Driver): Promise<string[]> {
  if (dialect === "sqlite") return [];
  const all = <R>(sql: string) => reader.all<R>({ sql, values: [] });
  const missing = await findMissing({ all }, loadMigrations(dialect));
  return missing.map(({ name }) => `index ${name} is missing, so some reads are slow; run keyrack db migrate`);
}

const sessionOf = (driver: Driver) => ({
  all: <R>(sql: string) => driver.writer.all<R>({ sql, values: [] }),
  exec: (sql: string) => driver.execScript(sql),
});

async function migrateOnce(driver: Driver, known: readonly Migration[], now: number): Promise<string[]> {
  await driver.begin();
  if (driver.dialect === "postgres") await driver.execScript(LOCK_MIGRATIONS);
  await driver.execScript(driver.dialect === "sqlite" ? HISTORY.replaceAll("bigint", "integer") : HISTORY);
  const applied = await driver.writer.all<Applied>(READ_APPLIED);
  const pending = pendingMigrations(applied, known);
  for (const migration of pending) await apply(driver, migration, now);
  await driver.writer.exec("commit");
  return pending.map(({ name }) => name);
}

function pendingMigrations(applied: Applied[], known: readonly Migration[]): Migration[] {
  for (const done of applied) {
    const ours = known.find(({ version }) => version === done.version);
    if (!ours) throw new SchemaTooNew(applied.at(-1) ?? done, known.at(-1)?.version ?? 0);
    if (ours.checksum !== done.checksum) {
      throw new SchemaRefused(`Migration ${done.name} differs from the one that was applied to this database.`);
    }
  }
  const newest = applied.at(-1)?.version ?? 0;
  const pending = known.filter(({ version }) => !applied.some((done) => done.version === version));
  const skipped = pending.find(({ version }) => version < newest);
  if (skipped) throw new SchemaRefused(`The database is at schema ${newest} but lacks migration ${skipped.name}.`);
  return pending;
}

async function apply(driver: Driver, { version, name, checksum, sql }: Migration, now: number): Promise<void> {
  await driver.execScript(
    driver.dialect === "sqlite" ? sql : sql.replace(CONCURRENT_INDEX, "").replace(COUNTED_CELLS, ""),
  );
  const [a, b, c, d] = driver.dialect === "sqlite" ? ["?", "?", "?", "?"] : ["$1", "$2", "$3", "$4"];
  await driver.writer.run({
    sql: `insert into schema_migrations (version, name, checksum, applied_at) values (${a}, ${b}, ${c}, ${d})`,
    values: [version, name, checksum, now],
  });
  if (driver.dialect === "sqlite") await driver.execScript(`pragma user_version = ${version}`);
}
