// SQLite: one writer and one reader connection on the main thread, durability by our own fdatasync of the -wal file.
// The trap: COMMIT alone (synchronous=NORMAL) is visible but not durable; nothing may be told before sync() returns.
import { statSync } from "node:fs";
import { fail } from "../../kernel/errors.ts";
import { fsyncFile } from "../../platform/fsync.ts";
import { connectSqlite, type Connection, type Statement } from "./open.ts";
import { isUniqueError, type Driver, type ErrorClass, type Writer } from "../engine/driver.ts";
import { WalSync } from "./wal-sync.ts";
import type { OnProgress } from "../progress.ts";
import { openReader, SqliteReader, Statements } from "./reader.ts";
import { assertPragma, COMMON, setPragmas } from "./pragmas.ts";
import type { Query, Row } from "../engine/statement.ts";

type CopyProgress = { totalPages: number; remainingPages: number };

const APPLICATION_ID = 0x4b52434b; // "KRCK"
const SQLITE_MIN = "3.51.3"; // the WAL-reset corruption bug is fixed from here on
const CHECKPOINT_BYTES = 4 * 1024 * 1024;
const CHECKPOINT_COMMITS = 200;
const WAL_MAX_BYTES = 64 * 1024 * 1024;
const PAGES_AT_A_TIME = 100;
const BUSY_FOR_MS = 5_000;

function olderThan(version: string, min: string): boolean {
  const [a, b] = [version, min].map((text) => text.split(".").map(Number));
  for (let i = 0; i < 3; i++) if (a?.[i] !== b?.[i]) return (a?.[i] ?? 0) < (b?.[i] ?? 0);
  return false;
}

export function openWriter(file: string): Connection {
  const db = connectSqlite(file, { timeout: 0 });
  const version = db.prepare("select sqlite_version() as v").get() as { v: string };
  if (olderThan(version.v, SQLITE_MIN)) throw new Error(`SQLite ${version.v} is too old: ${SQLITE_MIN} is needed`);
  // An empty file is a first start that was cut short.
  if (db.pragma("page_count", { simple: true }) === 0)
    setPragmas(db, ["page_size=4096", "auto_vacuum=INCREMENTAL", `application_id=${APPLICATION_ID}`]);
  assertPragma(db, "application_id", APPLICATION_ID);
  setPragmas(db, [
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "secure_delete=FAST",
    "cache_size=-8192", // at every commit SQLite walks its cache: with 64 MiB a commit takes twice the time
    "wal_autocheckpoint=0",
    "recursive_triggers=ON", // or "insert or replace" would delete audit rows past their trigger
  ]);
  setPragmas(db, COMMON);
  assertPragma(db, "busy_timeout", 0);
  // What an earlier process committed without syncing must not be shown and then lost: put it on disk now.
  checkpointAtOpen(db);
  return db;
}

/** On a full disk this has to wait; then the first sync, before anything is told, is what makes the -wal durable. */
function checkpointAtOpen(db: Connection): void {
  try {
    db.pragma("wal_checkpoint(TRUNCATE)");
  } catch (error) {
    if ((error as { code?: string }).code !== "SQLITE_FULL") throw error;
  }
}

/** A copied file says it is in WAL mode; a backup is one file that reading leaves alone. */
function settleCopy(file: string): void {
  const db = connectSqlite(file, { timeout: 0 });
  db.pragma("journal_mode=DELETE");
  db.close();
  fsyncFile(file);
}

class SqliteWriter implements Writer {
  readonly #db: Connection;
  readonly #statements: Statements;
  readonly #committed: () => void;

  constructor(db: Connection, committed: () => void) {
    this.#db = db;
    this.#statements = new Statements(db);
    this.#committed = committed;
  }

  /** A full disk or an I/O error ends the transaction on the spot: what came after it would commit by itself. */
  #statement(sql: string): Statement {
    if (!this.#db.inTransaction) throw new Error("the transaction is over: SQLite ended it");
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
    for (const row of rows) statement.run(...row); // quicker than as one array
  }

  async exec(sql: string): Promise<void> {
    this.post(sql);
    if (sql === "commit") this.#committed();
  }

  post(sql: string): void {
    this.#statements.get(sql).run();
  }
}

export class SqliteDriver implements Driver {
  readonly dialect = "sqlite";
  readonly sideBySide = false;
  readonly exclusive = true;
  readonly reader: SqliteReader;
  readonly writer: Writer;
  readonly #file: string;
  readonly #write: Connection;
  readonly #read: Connection;
  readonly #flusher: WalSync;
  #unsynced: PromiseWithResolvers<void> | undefined;
  #commits = 0;
  #walAtCheckpoint = 0;

  constructor(file: string, fatal: (error: unknown) => void = () => {}) {
    this.#file = file;
    this.#write = openWriter(file);
    this.#read = openReader(file);
    this.writer = new SqliteWriter(this.#write, () => this.#committed());
    this.reader = new SqliteReader(this.#read, (error) => {
      if (this.classifyError(error) === "fatal") fatal(error); // a page that cannot be read is as bad as one not written
    });
    this.#flusher = new WalSync(file);
  }

  async begin(): Promise<void> {
    const giveUp = Date.now() + BUSY_FOR_MS;
    for (let wait = 1; ; wait = Math.min(wait * 2, 100)) {
      try {
        await this.writer.exec("begin immediate");
        return;
      } catch (error) {
        if (this.classifyError(error) !== "busy") throw error;
        if (Date.now() > giveUp) throw fail("unavailable", { retryAfterSeconds: 1 });
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
  }

  /** From this moment readers see what a power cut would still take away. */
  #committed(): void {
    this.#commits++;
    this.reader.renew();
    this.#unsynced ??= Promise.withResolvers();
    this.#unsynced.promise.catch(() => {}); // there may be no reader to tell
  }

  async sync(): Promise<void> {
    try {
      await this.#flusher.sync();
    } catch (error) {
      this.#unsynced?.reject(error); // and it stays: what is not durable is never told
      throw error;
    }
    this.#unsynced?.resolve();
    this.#unsynced = undefined;
  }

  unsynced(): Promise<void> | undefined {
    return this.#unsynced?.promise;
  }

  /** A restarted -wal is overwritten in place and does not shrink, so commits are counted beside bytes. */
  async checkpointIfDue(idle = false): Promise<void> {
    const grown = this.walBytes() - this.#walAtCheckpoint;
    if (grown < CHECKPOINT_BYTES && this.#commits < (idle ? 1 : CHECKPOINT_COMMITS)) return;
    try {
      const tooLong = this.walBytes() > WAL_MAX_BYTES;
      await this.reader.apart(() => (tooLong ? this.#flusher.truncate() : this.#flusher.checkpoint()));
    } catch (error) {
      // No room to move pages over: what is in the -wal is durable there, and the next rest tries again.
      if (this.classifyError(error) !== "full") throw error;
      return;
    }
    this.#commits = 0;
    this.#walAtCheckpoint = this.walBytes();
  }

  walBytes(): number {
    return statSync(`${this.#file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  }

  classifyError(error: unknown): ErrorClass {
    const code = (error as { code?: string }).code ?? "";
    if (isUniqueError(error)) return "unique";
    if (code.startsWith("SQLITE_BUSY")) return "busy";
    if (code === "SQLITE_FULL") return "full";
    if (/^SQLITE_(IOERR|CORRUPT|NOTADB)/.test(code)) return "fatal";
    return "other";
  }

  /** Several statements at once: migrations only. */
  async script(sql: string): Promise<void> {
    this.#write.exec(sql);
  }

  async open(): Promise<string[]> {
    return [];
  }

  async tryBecomeLeader(): Promise<boolean> {
    return true; // the data dir's lock lets no other process in
  }

  async reconnect(): Promise<void> {}
  async notify(): Promise<void> {}
  onNotice(): void {}

  async ping(): Promise<void> {
    this.#read.prepare("select 1").get();
  }

  async copyTo(file: string, tell: OnProgress): Promise<void> {
    const progress = ({ totalPages: total, remainingPages }: CopyProgress): number => {
      tell.signal?.throwIfAborted();
      tell({ step: "copy", done: total - remainingPages, total });
      return PAGES_AT_A_TIME;
    };
    // The driver takes a copy that begins in the midst of a transaction for one that is finished, with nothing in it.
    for (let copied = 0; copied === 0; ) {
      tell.signal?.throwIfAborted();
      copied = (await this.#write.backup(file, { progress })).totalPages;
    }
    settleCopy(file);
  }

  async close(): Promise<void> {
    const truncated = this.reader.apart(() => this.#flusher.truncate());
    await truncated.catch((error: unknown) => {
      if (this.classifyError(error) !== "full") throw error;
    });
    this.reader.renew();
    await this.#flusher.close();
    this.#read.close();
    this.#write.close();
  }
}
