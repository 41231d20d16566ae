// What a dialect must offer to the group commit: one write connection, a read door, and a word on what an error means.
import type { OnProgress } from "../progress.ts";
import type { Dialect, Query, Reader, Row } from "./statement.ts";

/**
 * What an error of the database means to us.
 * unique: a unique index refused · full: no room, nothing written · busy: somebody else holds the lock, try again
 * slow: this one took too long, or the server is short of something; others may go on
 * lost: the connection went away, the outcome may be unknown · fatal: never go on, the storage is not to be trusted
 */
export type ErrorClass = "unique" | "full" | "busy" | "slow" | "lost" | "fatal" | "other";

export interface Writer {
  all<R>(query: Query): Promise<R[]>;
  first<R>(query: Query): Promise<R | undefined>;
  run(query: Query): Promise<number>;
  /** The same insert for several rows, in as few statements as the dialect does well with. */
  insertMany(sql: string, rows: readonly Row[]): Promise<void>;
  /** begin, commit, rollback, savepoint …: plain words, no values. */
  exec(sql: string): Promise<void>;
  /** The same without waiting for the answer: order is kept, and a failure shows in the next statement. */
  post(sql: string): void;
}

export interface Driver {
  readonly dialect: Dialect;
  readonly reader: Reader;
  readonly writer: Writer;
  /** True where jobs of one group may run side by side on the connection (a pipelined network protocol). */
  readonly sideBySide: boolean;
  /** True where a transaction that has begun keeps every other writer out: it need not lock what it reads. */
  readonly exclusive: boolean;
  begin(): Promise<void>;
  /** Resolves when everything committed so far would survive a power cut. */
  sync(): Promise<void>;
  /** Undefined when nothing is unsynced; else what a reader must await before it tells what it saw. */
  unsynced(): Promise<void> | undefined;
  /** Between groups: house-keeping that must not meet a transaction; all of it where there is time (`idle`). */
  checkpointIfDue(idle?: boolean): Promise<void>;
  /** Whether this process is the one, of all on this database, that does the work there is only one of. */
  tryBecomeLeader(): Promise<boolean>;
  classifyError(error: unknown): ErrorClass;
  /** After `lost`: a fresh connection, so that outcomes can be looked up and work goes on. */
  reconnect(): Promise<void>;
  /** Tells other processes on the same database; delivered to `onNotice` there. */
  notify(payload: string): Promise<void>;
  onNotice(listener: (payload: string) => void): void;
  ping(timeoutMs: number): Promise<void>;
  /** Page by page on the write connection: a write of another connection would start it anew. SQLite only. */
  copyTo(file: string, tell: OnProgress): Promise<void>;
  close(): Promise<void>;
}

/** Whether a unique index refused, in either dialect. */
export function isUniqueError(error: unknown): boolean {
  const code = (error as { code?: string }).code ?? "";
  return code === "23505" || /^SQLITE_CONSTRAINT_(UNIQUE|PRIMARYKEY)/.test(code);
}

/** The unique index or column list that refused, as far as the dialect tells; for naming the field. */
export function uniqueTarget(error: unknown): string {
  const { constraint, message } = error as { constraint?: string; message?: string };
  return constraint ?? message ?? "";
}
