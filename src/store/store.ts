// The interface of the database for all other layers.
import type { Ledger } from "../fairness/ledger.ts";
import type { OnOutage } from "../fairness/outage-reports.ts";
import type { Owner } from "../fairness/owners.ts";
import type { Histogram } from "../kernel/exposition.ts";
import type { GroupCommitEvents } from "./engine/group-commit.ts";
import type { Job } from "./engine/job.ts";
import type { VersionChange } from "./engine/policy-versions.ts";
import type { Dialect, Query, Reader } from "./engine/tx.ts";
import type { SeriesQuery } from "./usage/series.ts";
import type { ExportPart, ExportQuery } from "./usage/export.ts";
import type { VerifyOptions } from "./audit/chain-verifications.ts";
import type { ChainCheck, ExpectedCheckpoint } from "./audit/verify.ts";
import type { OnProgress } from "./progress.ts";
import type { MigrationPlan } from "./schema/migrate.ts";
import type { DatabaseTarget } from "./target.ts";

export type StoreOptions = Pick<GroupCommitEvents, "now" | "fatal"> & {
  /** A listener threw. The write that it was notified of is committed. */
  listenerFailed?: (error: unknown) => void;
  /** PostgreSQL cannot be used, and why, or it can again. Once it is open. */
  onOutage?: OnOutage<unknown>;
  /** On PostgreSQL, refuses to work while a command needs the database alone (postgres/maintenance.ts). */
  yieldsToCommands?: boolean;
  /** Called before pending migrations are applied. If it throws, none is. */
  beforeMigrate?: (plan: MigrationPlan) => Promise<void>;
  /** Where nothing is migrated, missing indexes on PostgreSQL are reported in `warnings` instead of built. */
  leaveIndexes?: boolean;
  /** Opens a PostgreSQL database that is marked as an unfinished copy: for the copy itself. */
  unfinishedCopy?: boolean;
};

/** About how many bytes a committed write of an owner has stored. */
export type OnWritten = (owner: Owner, bytes: number) => void;

/** Changes of policies have `onPolicyChange`. A notification may be lost; what that costs: */
export type NoticeTopic =
  /** A secret key ended: it works in the other processes until they check their cached credentials. */
  | "secret_key"
  /** A node left: the other processes notice with their next snapshot of the nodes. */
  | "node"
  /** A quota lease was returned: balances show its units as held until it would have ended. */
  | "quota_lease"
  /** Held units of a grant are recalled: those that are unused go back 10 s later. */
  | "quota_balance"
  /** A login was unlocked: it stays throttled by the other processes until the window ends. */
  | "unlocked"
  /** Sent by the driver itself, to this process, when it has reconnected: notifications were lost. */
  | "resync";

export interface Store {
  readonly dialect: Dialect;
  readonly target: DatabaseTarget;
  readonly read: Reader;
  write<T>(job: Job<T>): Promise<T>;
  /** Await before responding with data that was read: on SQLite a commit is visible before it is durable. */
  durable(): Promise<void> | undefined;
  /** Called after each durable commit, here and (on PostgreSQL) in other processes, with the changed projects. */
  onPolicyChange(listener: (changes: VersionChange[]) => void): void;
  /** Called for each committed write that has an owner. */
  onWritten(listener: OnWritten): void;
  /** Sends notifications to every process on this database, this one included; used to drop what is cached. */
  notify(topic: NoticeTopic, ...payloads: string[]): Promise<void>;
  onNotice(topic: NoticeTopic, listener: (payload: string) => void): void;
  /**
   * Verifies an audit chain, or what follows `from`, off the main thread; concurrent callers for the same workspace
   * share one run.
   */
  verify(workspace_id: string, expected: ExpectedCheckpoint[], options?: VerifyOptions): Promise<ChainCheck>;
  /** Rows that the running verification of a whole chain has passed; null when there is none. */
  verifyProgress(workspace_id: string): number | null;
  /** Reads a usage series off the main thread; returns it as JSON, or null if it has too many values. */
  readSeries(query: SeriesQuery): Promise<string | null>;
  /** Reads lines of one bucket of the usage export off the main thread. */
  exportUsage(query: ExportQuery): Promise<ExportPart>;
  /** Runs a long read off the main thread. */
  readOnThread<R>(query: Query): Promise<R[]>;
  /** Copies a SQLite database in use to a new file. Consistent, and durable when this resolves. */
  copyTo(file: string, onProgress: OnProgress, options?: { largeBytes?: number }): Promise<void>;
  /** Rejects every write. */
  readonly readOnly: boolean;
  /** Since the start: commits, jobs, the most jobs of one commit, and the distribution. */
  readonly stats: { commits: number; jobs: number; largest: number; readonly sizes: Histogram };
  readonly backlog: number;
  /** The writes that wait, by owner. */
  readonly waitingWrites: Ledger;
  /**
   * Whether this process is the leader: the one process on the database that runs the scheduled jobs. False means that
   * another is; without a connection it throws.
   */
  tryBecomeLeader(): Promise<boolean>;
  /** Moves SQLite's write-ahead log into the database if no write is queued. */
  checkpointIfIdle(): Promise<void>;
  /** Builds the indexes that no process has built at its migration, and returns their names. PostgreSQL only. */
  buildIndexes(signal: AbortSignal): Promise<string[]>;
  /** The versions of Keyrack that are connected to the database, this one included, ascending. */
  connectedVersions(): Promise<string[]>;
  ping(timeoutMs: number): Promise<void>;
  close(): Promise<void>;
  /** Migrations that were applied when the store was opened. */
  readonly applied: string[];
  /** Whether opening it created the schema, in an empty database. */
  readonly created: boolean;
  readonly warnings: string[];
}
