// What the group commit needs from a database: one write connection, a reader, and the meaning of its errors.
import { codeOf } from "../../platform/errors.ts";
import type { OnProgress } from "../progress.ts";
import type { Dialect, Query, Reader, Row } from "./tx.ts";

/**
 * What a database error means for the caller.
 *
 * | class    | meaning                                                                      |
 * |----------|------------------------------------------------------------------------------|
 * | unique   | a unique index rejected the row                                              |
 * | full     | no disk space; nothing was written                                           |
 * | readonly | the database accepts no writes, such as a standby; nothing was written       |
 * | busy     | lock conflict or deadlock with another process; retry the transaction        |
 * | slow     | statement timeout, or the server is out of resources; other jobs may continue |
 * | lost     | the connection broke; the outcome may be unknown                             |
 * | fatal    | the storage can no longer be trusted; stop writing                           |
 */
export type ErrorClass = "unique" | "full" | "readonly" | "busy" | "slow" | "lost" | "fatal" | "other";

export interface Writer {
  all<R>(query: Query): Promise<R[]>;
  first<R>(query: Query): Promise<R | undefined>;
  run(query: Query): Promise<number>;
  /** Runs one insert for several rows, in as few statements as is fastest on the dialect. */
  insertMany(sql: string, rows: readonly Row[]): Promise<void>;
  /** begin, commit, rollback, savepoint …: text without values. */
  exec(sql: string): Promise<void>;
  /** As `exec` without waiting for the response: order is kept, and a failure surfaces in the next statement. */
  execNoWait(sql: string): void;
}

export interface Driver {
  readonly dialect: Dialect;
  readonly reader: Reader;
  /** For reads that may take long, so that no other read waits behind them. Without it they run in a thread. */
  readonly slowReader?: Reader;
  readonly writer: Writer;
  /** True if every write is rejected. */
  readonly readOnly: boolean;
  begin(): Promise<void>;
  /** Runs several statements at once: migrations only. */
  execScript(sql: string): Promise<void>;
  /** Resolves when everything committed so far is durable. */
  sync(): Promise<void>;
  /** The sync that a response with data read now must wait for; undefined when everything visible is durable. */
  pendingSync(): Promise<void> | undefined;
  /** Between groups: checkpoints the write-ahead log if it has grown enough, or at all when `idle`. SQLite only. */
  checkpointIfDue(idle?: boolean): Promise<void>;
  /** Whether this process is the leader of all processes on this database. */
  tryBecomeLeader(): Promise<boolean>;
  classifyError(error: unknown): ErrorClass;
  /** Replaces a lost connection. */
  reconnect(): Promise<void>;
  /**
   * Sends notifications to every process on the database, after the commit they are about; `onNotice` receives them
   * there.
   */
  notify(payloads: readonly string[]): Promise<void>;
  onNotice(listener: (payload: string) => void): void;
  ping(timeoutMs: number): Promise<void>;
  /** Copies page by page on the write connection; on another one, each write would restart the copy. SQLite only. */
  copyTo(file: string, onProgress: OnProgress): Promise<void>;
  close(): Promise<void>;
}

/** Whether a unique index rejected the row, in either dialect. */
export function isUniqueError(error: unknown): boolean {
  const code = codeOf(error);
  return code === "23505" || /^SQLITE_CONSTRAINT_(UNIQUE|PRIMARYKEY)/.test(code);
}

/** The index or columns that a unique error is about, as far as the dialect reports them. */
export function uniqueTarget(error: unknown): string {
  const { constraint, message } = error as { constraint?: string; message?: string };
  return constraint ?? message ?? "";
}
