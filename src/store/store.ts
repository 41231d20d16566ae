// The database as the rest of Keyrack sees it.
import type { Histogram } from "../kernel/exposition.ts";
import type { Job } from "./engine/job.ts";
import type { Bumped } from "./engine/policy-versions.ts";
import type { Dialect, Reader } from "./engine/statement.ts";
import type { ChainCheck, Expected } from "./offline/verify-pool.ts";
import type { OnProgress } from "./progress.ts";
import type { DatabaseTarget } from "./target.ts";

export type StoreEvents = {
  now: () => number;
  fatal: (error: unknown) => void;
  /** Somebody who listens here threw; the write itself is done. */
  listenerFailed?: (error: unknown) => void;
};

/** What every part of Keyrack sees of the database. */
export interface Store {
  readonly dialect: Dialect;
  readonly target: DatabaseTarget;
  readonly read: Reader;
  write<T>(job: Job<T>): Promise<T>;
  /** Await before telling what a read showed: on SQLite a commit is visible a moment before it is durable. */
  durable(): Promise<void> | undefined;
  /** Called after each durable commit, here and (on PostgreSQL) in other processes, with the projects that moved. */
  onBump(listener: (bumped: Bumped[]) => void): void;
  /** Sends a word to every process on this database, this one included; used to drop cached credentials. */
  notify(topic: string, payload: string): Promise<void>;
  onNotice(topic: string, listener: (payload: string) => void): void;
  /** Verifies a chain off the main thread; callers for the same workspace share one run. */
  verify(workspace_id: string, expected: Expected[]): Promise<ChainCheck>;
  /** A consistent copy of a SQLite database in a new file, made while it is in use and on disk when this resolves. */
  copyTo(file: string, tell: OnProgress, options?: { largeBytes?: number }): Promise<void>;
  /** Every write is refused. */
  readonly readOnly: boolean;
  /** Commits since the start, the jobs in them, and how many jobs shared one. */
  readonly stats: { commits: number; jobs: number; largest: number; readonly sizes: Histogram };
  readonly backlog: number;
  /** Whether this process leads: of all on one database, the one that runs the jobs there should be only one of. */
  tryBecomeLeader(): Promise<boolean>;
  /** House-keeping of a quiet moment: on SQLite, moves the -wal into the database. */
  checkpointIfIdle(): Promise<void>;
  ping(timeoutMs: number): Promise<void>;
  close(): Promise<void>;
  readonly applied: string[];
  readonly warnings: string[];
}
