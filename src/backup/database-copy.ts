// Copies a whole deployment from SQLite to PostgreSQL or back. The source is only read. The copy goes into use when
// every row is there, every value is equal and every audit chain verifies; until then it is marked or named as
// unfinished.
import { existsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { openStore } from "../store/database.ts";
import { copyOrder, copyRows, checksumDifferences, checksumRows, type TableChecksums } from "../store/offline/copy.ts";
import { openCopySource, type CopySource } from "../store/offline/copy-source.ts";
import { openCopySink } from "../store/offline/copy-sink.ts";
import { inspect } from "../store/offline/thread-tasks.ts";
import type { Inspection } from "../store/threads/tasks.ts";
import { assertCopyTarget, dropCopy, finishCopy, startCopy } from "../store/postgres/copy-target.ts";
import { assertNotInUse } from "../store/postgres/restore.ts";
import type { OnProgress } from "../store/progress.ts";
import { hasSchema, readAppliedMigrations } from "../store/schema/applied.ts";
import { loadMigrations } from "../store/schema/migrate.ts";
import { isWritable } from "../store/sqlite/open.ts";
import { removeSqlite, swapSqlite } from "../store/sqlite/swap.ts";
import { describeTarget, dialectName, type DatabaseTarget, type PostgresTarget } from "../store/target.ts";
import { BackupRefused } from "./files.ts";

type CopyOptions = {
  /** The caller holds its lock. */
  from: DatabaseTarget;
  to: DatabaseTarget;
  dryRun: boolean;
  /** Throws if another process may be using the source, right before the copy goes into use. */
  assertAlone: () => Promise<void>;
  onProgress: OnProgress;
};

export type CopiedDatabase = {
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

export async function copyDatabase(options: CopyOptions): Promise<CopiedDatabase> {
  const { from, to, dryRun, onProgress } = options;
  const started = performance.now();
  await assertSource(from, to);
  await assertDestination(to);
  const source = await openCopySource(from);
  try {
    await assertCurrentSchema(source, from);
    const inspected = await inspect(from, onProgress);
    if (inspected.findings.length > 0)
      throw new BackupRefused(`The database to copy is not sound: ${inspected.findings[0]}. Nothing was copied.`, 4);
    const copied = dryRun ? inspected : await copyInto(source, options);
    const tables: CopiedDatabase["tables"] = [];
    for (const name of (await copyOrder(source.source)).toSorted())
      tables.push({ name, rows: await source.count(name) });
    return {
      object: "database_copy",
      from: describeTarget(from),
      to: describeTarget(to),
      dry_run: dryRun,
      tables,
      rows: tables.reduce((sum, table) => sum + table.rows, 0),
      chains: copied.chains,
      audit_rows: copied.audit_rows,
      took_ms: Math.round(performance.now() - started),
    };
  } finally {
    await source.close();
  }
}

async function assertSource(from: DatabaseTarget, to: DatabaseTarget): Promise<void> {
  if (from.kind === to.kind)
    throw new BackupRefused(`Both databases are ${dialectName(from.kind)}. Use keyrack backup and keyrack restore.`, 2);
  if (from.kind === "postgres") return assertNotInUse(from);
  if (!statSync(from.file, { throwIfNoEntry: false }))
    throw new BackupRefused(`There is no database at ${from.file}. Name its data dir with --data-dir.`, 2);
}

/** The destination must be empty, or an unfinished copy of ours. */
async function assertDestination(to: DatabaseTarget): Promise<void> {
  if (to.kind === "sqlite") {
    const folder = dirname(to.file);
    if (!existsSync(folder)) throw new BackupRefused(`There is no folder ${folder}. Create it first.`, 2);
    if (!isWritable(folder)) throw new BackupRefused(`${folder} cannot be written to by this user, or at all.`, 2);
    if ((statSync(to.file, { throwIfNoEntry: false })?.size ?? 0) > 0)
      throw new BackupRefused(`There is a file at ${to.file} already. Move it away first.`);
    return;
  }
  await assertCopyTarget(to.url, describeTarget(to));
}

async function assertCurrentSchema({ source }: CopySource, from: DatabaseTarget): Promise<void> {
  if (!(await hasSchema(source)))
    throw new BackupRefused(`There is no Keyrack database at ${describeTarget(from)}.`, 2);
  const applied = (await readAppliedMigrations(source)).map(({ version, checksum }) => `${version} ${checksum}`);
  const known = loadMigrations(from.kind).map(({ version, checksum }) => `${version} ${checksum}`);
  if (applied.join() !== known.join())
    throw new BackupRefused("The database is not at the schema of this version. Run keyrack db migrate first.", 2);
}

function copyInto(source: CopySource, options: CopyOptions): Promise<Inspection> {
  const { to, onProgress } = options;
  return to.kind === "sqlite" ? copyIntoSqlite(to.file, source, options) : copyIntoPostgres(to, source, onProgress);
}

async function createSchema(to: DatabaseTarget): Promise<void> {
  const store = await openStore(to, { now: Date.now, fatal: () => {}, unfinishedCopy: true });
  await store.close();
}

async function copyAllRows(source: CopySource, to: DatabaseTarget, onProgress: OnProgress): Promise<TableChecksums> {
  const sink = await openCopySink(to);
  try {
    const sums = await copyRows(source, sink, onProgress);
    await sink.end("commit");
    return sums;
  } catch (error) {
    await sink.end("rollback").catch(() => {}); // the first error is the one to report
    throw error;
  }
}

/** Reads the copy back, compares every value with what was read from the source, and inspects it as a database. */
async function verifyCopy(to: DatabaseTarget, sums: TableChecksums, onProgress: OnProgress): Promise<Inspection> {
  const written = await openCopySource(to);
  let differences: string[];
  try {
    differences = checksumDifferences(sums, await checksumRows(written, onProgress));
  } finally {
    await written.close();
  }
  const inspected = await inspect(to, onProgress);
  const wrong = [...differences, ...inspected.findings];
  if (wrong.length > 0) throw new BackupRefused(`The copy is not equal, so it was dropped: ${wrong[0]}.`, 4);
  return inspected;
}

async function copyIntoSqlite(file: string, source: CopySource, options: CopyOptions): Promise<Inspection> {
  const { onProgress, assertAlone } = options;
  const unfinished = { kind: "sqlite", file: `${file}.copying` } as const;
  removeSqlite(unfinished.file); // left by an interrupted copy
  try {
    await createSchema(unfinished);
    const inspected = await verifyCopy(unfinished, await copyAllRows(source, unfinished, onProgress), onProgress);
    await assertAlone();
    swapSqlite(unfinished.file, file, `${file}.replaced`); // at most an empty file is replaced
    return inspected;
  } finally {
    removeSqlite(unfinished.file);
  }
}

async function copyIntoPostgres(to: PostgresTarget, source: CopySource, onProgress: OnProgress): Promise<Inspection> {
  await startCopy(to.url, describeTarget(to));
  try {
    await createSchema(to);
    const inspected = await verifyCopy(to, await copyAllRows(source, to, onProgress), onProgress);
    await finishCopy(to.url);
    return inspected;
  } catch (error) {
    // Not below a server that started at the same moment. Where it fails it stays marked, and the next copy drops it.
    const drop = async (): Promise<void> => assertNotInUse(to).then(() => dropCopy(to.url));
    await drop().catch(() => {});
    throw error;
  }
}
