// SQLite: one writer and one reader connection on the main thread; durability by our own fdatasync of the -wal file.
// Caution: COMMIT with synchronous=NORMAL is visible but not durable. No response may be sent before sync() resolves.
import { setTimeout as sleep } from "node:timers/promises";
import { fail } from "../../kernel/errors.ts";
import { fsyncAsync } from "../../platform/fsync.ts";
import { isUniqueError, type Driver, type ErrorClass, type Writer } from "../engine/driver.ts";
import type { Query, Row } from "../engine/tx.ts";
import type { OnProgress } from "../progress.ts";
import { Checkpoints } from "./checkpoints.ts";
import { connectSqlite, requireOwnFile, type Connection, type Statement } from "./open.ts";
import { assertPragma, COMMON_PRAGMAS, setPragmas } from "./pragmas.ts";
import { openReader, SqliteReader, StatementCache } from "./reader.ts";
import { WalSync } from "./wal-sync.ts";

const APPLICATION_ID = 0x4b52434b; // "KRCK"
const SQLITE_MIN = "3.51.3"; // fixes the WAL-reset corruption bug
const COPY_PAGES = 100;
const BUSY_MAX_MS = 5_000;

export function openWriter(file: string): Connection {
  const db = connectSqlite(file, { timeout: 0 });
  const version = db.prepare("select sqlite_version() as v").get() as { v: string };
  if (version.v.localeCompare(SQLITE_MIN, "en", { numeric: true }) < 0)
    throw new Error(`SQLite ${version.v} is too old: ${SQLITE_MIN} or newer is required`);
  // A new file, or an empty one left by an interrupted first start.
  if (db.pragma("page_count", { simple: true }) === 0)
    setPragmas(db, ["page_size=4096", "auto_vacuum=INCREMENTAL", `application_id=${APPLICATION_ID}`]);
  requireOwnFile(db, APPLICATION_ID);
  setPragmas(db, [
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "secure_delete=FAST",
    "cache_size=-8192", // every commit walks the page cache: 64 MiB doubles its time
    "wal_autocheckpoint=0",
    "recursive_triggers=ON", // else "insert or replace" deletes audit rows without firing their trigger
  ]);
  setPragmas(db, COMMON_PRAGMAS);
  assertPragma(db, "busy_timeout", 0);
  // Commits that an earlier process did not sync must not become visible and then be lost.
  checkpointAtOpen(db);
  return db;
}

/** On a full disk the checkpoint is skipped: the first sync, which precedes any response, makes the -wal durable. */
function checkpointAtOpen(db: Connection): void {
  try {
    db.pragma("wal_checkpoint(TRUNCATE)");
  } catch (error) {
    if ((error as { code?: string }).code !== "SQLITE_FULL") throw error;
  }
}

/** A copy is still marked as WAL mode, where reading creates files beside it. A backup must be one file. */
async function finishCopy(file: string): Promise<void> {
  await fsyncAsync(file); // else the change of mode would sync all of it, and block the event loop
  const db = connectSqlite(file, { timeout: 0 });
  db.pragma("journal_mode=DELETE");
  db.close();
  await fsyncAsync(file);
}

class SqliteWriter implements Writer {
  readonly #db: Connection;
  readonly #statements: StatementCache;
  readonly #committed: () => void;

  constructor(db: Connection, committed: () => void) {
    this.#db = db;
    this.#statements = new StatementCache(db);
    this.#committed = committed;
  }

  /** A full disk or an I/O error ends the transaction: a statement after that would commit on its own. */
  #statement(sql: string): Statement {
    if (!this.#db.inTransaction) throw new Error("SQLite has ended the transaction");
    return this.#statements.get(sql);
  }

  async all<R>(query: Query): Promise<R[]> {
    return this.#statement(query.sql).all(query.values) as R[];
  }

  async first<R>(query: Query): Promise<R | undefined> {
    return this.#statement(query.sql).get(query.values) as R | undefined;
  }

  async run(query: Query): Promise<number> {
    return this.#statement(query.sql).run(query.values).changes;
  }

  async insertMany(sql: string, rows: readonly Row[]): Promise<void> {
    const statement = this.#statement(sql);
    for (const row of rows) statement.run(...row); // spread is faster than one array. bench: vendor/mint
  }

  async exec(sql: string): Promise<void> {
    this.execNoWait(sql);
    if (sql === "commit") this.#committed();
  }

  execNoWait(sql: string): void {
    this.#statements.get(sql).run();
  }
}

export class SqliteDriver implements Driver {
  readonly dialect = "sqlite";
  readonly readOnly = false;
  readonly reader: SqliteReader;
  readonly writer: Writer;
  readonly #write: Connection;
  readonly #read: Connection;
  readonly #walSync: WalSync;
  readonly #checkpoints: Checkpoints;
  #pendingSync: PromiseWithResolvers<void> | undefined;

  constructor(file: string, fatal: (error: unknown) => void = () => {}) {
    this.#write = openWriter(file);
    this.#read = openReader(file);
    this.writer = new SqliteWriter(this.#write, () => this.#committed());
    this.reader = new SqliteReader(this.#read, (error) => {
      if (this.classifyError(error) === "fatal") fatal(error); // an unreadable page is as fatal as a failed write
    });
    this.#walSync = new WalSync(file);
    const { reader } = this;
    this.#checkpoints = new Checkpoints({ file, reader, walSync: this.#walSync });
  }

  async begin(): Promise<void> {
    const deadline = performance.now() + BUSY_MAX_MS;
    for (let wait = 1; ; wait = Math.min(wait * 2, 100)) {
      try {
        return await this.writer.exec("begin immediate");
      } catch (error) {
        if (this.classifyError(error) !== "busy") throw error;
        if (performance.now() > deadline) throw fail("unavailable");
        await sleep(wait);
      }
    }
  }

  /** Committed and visible to readers, not yet durable. */
  #committed(): void {
    this.#checkpoints.countCommit();
    this.reader.endSnapshot();
    this.#pendingSync ??= Promise.withResolvers();
    this.#pendingSync.promise.catch(() => {}); // there may be no reader waiting
  }

  async sync(): Promise<void> {
    try {
      await this.#walSync.sync();
    } catch (error) {
      this.#pendingSync?.reject(error); // kept: data that is not durable must never be sent
      throw error;
    }
    this.#pendingSync?.resolve();
    this.#pendingSync = undefined;
  }

  pendingSync(): Promise<void> | undefined {
    return this.#pendingSync?.promise;
  }

  async checkpointIfDue(idle?: boolean, now?: number): Promise<void> {
    try {
      await this.#checkpoints.runIfDue(idle, now);
    } catch (error) {
      // Disk full: the pages stay durable in the -wal, and the next checkpoint tries again.
      if (this.classifyError(error) !== "full") throw error;
    }
  }

  walBytes(): number {
    return this.#checkpoints.walBytes();
  }

  classifyError(error: unknown): ErrorClass {
    const code = (error as { code?: string }).code ?? "";
    if (isUniqueError(error)) return "unique";
    if (code.startsWith("SQLITE_BUSY")) return "busy";
    if (code === "SQLITE_FULL") return "full";
    if (/^SQLITE_(IOERR|CORRUPT|NOTADB)/.test(code)) return "fatal";
    return "other";
  }

  async execScript(sql: string): Promise<void> {
    this.#write.unsafeMode(true); // a migration may widen a constraint in sqlite_schema
    try {
      this.#write.exec(sql);
    } finally {
      this.#write.unsafeMode(false);
    }
  }

  async open(): Promise<string[]> {
    return [];
  }

  async tryBecomeLeader(): Promise<boolean> {
    return true; // the data dir lock excludes other processes
  }

  async reconnect(): Promise<void> {}
  async notify(): Promise<void> {}
  onNotice(): void {}

  async ping(): Promise<void> {
    this.#read.prepare("select 1").get();
  }

  async copyTo(file: string, onProgress: OnProgress): Promise<void> {
    const progress = (pages: { totalPages: number; remainingPages: number }): number => {
      onProgress.signal?.throwIfAborted();
      const { totalPages: total, remainingPages } = pages;
      onProgress({ step: "copy", done: total - remainingPages, total });
      return COPY_PAGES;
    };
    // better-sqlite3 reports a copy that starts during a transaction as finished, with 0 pages: try again.
    for (let copied = 0; copied === 0; ) {
      onProgress.signal?.throwIfAborted();
      copied = (await this.#write.backup(file, { progress })).totalPages;
    }
    await finishCopy(file);
  }

  async close(): Promise<void> {
    await this.#checkpoints.close();
    const truncated = this.reader.withoutSnapshot(() => this.#walSync.truncate());
    await truncated.catch((error: unknown) => {
      if (this.classifyError(error) !== "full") throw error;
    });
    this.reader.endSnapshot();
    await this.#walSync.close();
    this.#read.close();
    this.#write.close();
  }
}
