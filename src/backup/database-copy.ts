// Moves a whole deployment from one database to another, SQLite to PostgreSQL or back. The one it comes from is only
// read; the other is put in its place when every row is there, every value equal and every audit chain verified.
import { statSync } from "node:fs";
import { resolve } from "node:path";
import type { Settings } from "../config/settings.ts";
import { BackupRefused } from "./files.ts";
import { databaseTarget, takeLock, toStartRefused } from "../server/instance.ts";
import { preferNativeFolders } from "../platform/native-addons.ts";
import { appliedMigrations } from "../store/offline/chains.ts";
import { copyRows, sumDifferences, sumRows, type Sums } from "../store/offline/copy.ts";
import { openCopySink, openCopySource, type CopySource } from "../store/offline/copy-ends.ts";
import { openStore } from "../store/database.ts";
import type { DatabaseTarget } from "../store/target.ts";
import { inspect, type Inspection } from "../store/offline/inspect.ts";
import type { OnProgress } from "../store/progress.ts";
import { loadMigrations } from "../store/schema/migrate.ts";
import { clearUnfinished, dropUnfinished, markUnfinished, sinkState } from "../store/postgres/copy-target.ts";
import { assertUnused } from "../store/postgres/restore.ts";
import { withoutPassword } from "../store/postgres/tools.ts";
import { removeSqlite, swapSqlite } from "../store/sqlite/swap.ts";

export type CopyOptions = {
  settings: Settings;
  /** Where to. */
  to: { kind: "sqlite"; file: string } | { kind: "postgres"; url: string };
  dryRun: boolean;
  tell: OnProgress;
};

export type Copied = {
  object: "database_copy";
  from: string;
  to: string;
  dry_run: boolean;
  tables: { name: string; rows: number }[];
  rows: number;
  chains: number;
  audit_rows: number;
  took_ms: number;
};

export async function copyDatabase(options: CopyOptions): Promise<Copied> {
  process.umask(0o077);
  const { settings } = options;
  const dir = resolve(settings.data_dir);
  preferNativeFolders([settings.cache_dir, dir]);
  const from = databaseTarget(settings, dir);
  const to: DatabaseTarget =
    options.to.kind === "sqlite" ? { kind: "sqlite", file: resolve(options.to.file) } : { ...options.to, pool: 1 };
  try {
    if (from.kind === to.kind)
      throw new BackupRefused(
        `Both databases are ${from.kind === "sqlite" ? "SQLite" : "PostgreSQL"}. Use keyrack backup and keyrack restore.`,
        2,
      );
    if (from.kind === "sqlite" && !statSync(from.file, { throwIfNoEntry: false }))
      throw new BackupRefused(`There is no database at ${from.file}. Name its data dir with --data-dir.`, 2);
    const lock = from.kind === "sqlite" ? takeLock(dir, from.file, false) : undefined;
    if (from.kind === "postgres") await assertUnused(from);
    try {
      return await copy(from, to, options);
    } finally {
      lock?.release();
    }
  } catch (error) {
    throw toStartRefused(error);
  }
}

async function copy(from: DatabaseTarget, to: DatabaseTarget, { dryRun, tell }: CopyOptions): Promise<Copied> {
  const started = performance.now();
  await assertReady(to);
  const source = await openCopySource(from);
  try {
    await assertCurrent(source, from);
    const whole = await inspect(from, tell);
    if (whole.findings.length > 0)
      throw new BackupRefused(`The database to copy is not sound: ${whole.findings[0]}. Nothing was copied.`, 4);
    const done = dryRun ? whole : await move(source, to, tell);
    const { schema_migrations: _history, ...rows } = whole.contents.rows;
    const tables = Object.entries(rows).map(([name, n]) => ({ name, rows: n }));
    return {
      object: "database_copy",
      from: named(from),
      to: named(to),
      dry_run: dryRun,
      tables,
      rows: tables.reduce((sum, table) => sum + table.rows, 0),
      chains: done.chains,
      audit_rows: done.audit_rows,
      took_ms: Math.round(performance.now() - started),
    };
  } finally {
    await source.close();
  }
}

/** As a person may read it: no password. */
function named(target: DatabaseTarget): string {
  return target.kind === "sqlite" ? `sqlite:${target.file}` : withoutPassword(target.url).address;
}

/** A database with anything in it is nobody's to write into, unless it is a copy of ours that was cut short. */
async function assertReady(to: DatabaseTarget): Promise<void> {
  if (to.kind === "sqlite") {
    if ((statSync(to.file, { throwIfNoEntry: false })?.size ?? 0) > 0)
      throw new BackupRefused(`There is a file at ${to.file} already. Move it away first.`);
    return;
  }
  if ((await sinkState(to.url)) === "in use")
    throw new BackupRefused(`The database ${named(to)} is not empty. Name an empty one.`);
}

async function assertCurrent({ source }: CopySource, from: DatabaseTarget): Promise<void> {
  const past = (await appliedMigrations(source)).map(({ version, checksum }) => `${version} ${checksum}`);
  const known = loadMigrations(from.kind).map(({ version, checksum }) => `${version} ${checksum}`);
  if (past.join() !== known.join())
    throw new BackupRefused("The database is not at the schema of this version. Run keyrack db migrate first.", 2);
}

async function move(source: CopySource, to: DatabaseTarget, tell: OnProgress): Promise<Inspection> {
  return to.kind === "sqlite" ? toSqlite(source, to.file, tell) : toPostgres(source, to, tell);
}

async function makeSchema(to: DatabaseTarget): Promise<void> {
  const store = await openStore(to, { now: Date.now, fatal: () => {} });
  await store.close();
}

async function fill(source: CopySource, to: DatabaseTarget, tell: OnProgress): Promise<Sums> {
  const sink = await openCopySink(to);
  try {
    const sums = await copyRows(source, sink, tell);
    await sink.end("commit");
    return sums;
  } catch (error) {
    await sink.end("rollback").catch(() => {}); // the first error is the one to tell
    throw error;
  }
}

/** What was written is read again, value by value, and looked at as a database. */
async function compare(to: DatabaseTarget, sums: Sums, tell: OnProgress): Promise<Inspection> {
  const written = await openCopySource(to);
  let differences: string[];
  try {
    differences = sumDifferences(sums, await sumRows(written, tell));
  } finally {
    await written.close();
  }
  const whole = await inspect(to, tell);
  const wrong = [...differences, ...whole.findings];
  if (wrong.length > 0) throw new BackupRefused(`The copy is not equal, so it was dropped: ${wrong[0]}.`, 4);
  return whole;
}

async function toSqlite(source: CopySource, file: string, tell: OnProgress): Promise<Inspection> {
  const fresh = { kind: "sqlite", file: `${file}.copying` } as const;
  removeSqlite(fresh.file); // of a copy that was cut short
  try {
    await makeSchema(fresh);
    const whole = await compare(fresh, await fill(source, fresh, tell), tell);
    swapSqlite(fresh.file, file, `${file}.replaced`); // an empty file at most is there
    return whole;
  } finally {
    removeSqlite(fresh.file);
  }
}

async function toPostgres(
  source: CopySource,
  to: Extract<DatabaseTarget, { kind: "postgres" }>,
  tell: OnProgress,
): Promise<Inspection> {
  await dropUnfinished(to.url);
  await makeSchema(to);
  await markUnfinished(to.url);
  try {
    const whole = await compare(to, await fill(source, to, tell), tell);
    await clearUnfinished(to.url);
    return whole;
  } catch (error) {
    await dropUnfinished(to.url).catch(() => {}); // marked as it is, the next copy does it
    throw error;
  }
}
