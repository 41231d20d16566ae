// Jobs of the group commit, from queueing to their response.
import type { Owner } from "../../fairness/owners.ts";
import { fail, Failure } from "../../kernel/errors.ts";
import type { AuditEntry, PreparedEntry } from "./audit-ledger.ts";
import type { ErrorClass } from "./driver.ts";
import type { Tx } from "./tx.ts";

/** A job's result and the audit entries that record it. `unchanged` rolls its writes back. */
export type JobResult<T> = { value: T; entries: readonly AuditEntry[]; unchanged?: boolean };

export type Job<T> = {
  /** The audit chains this job appends to; their heads are locked before any job runs. */
  chains: readonly string[];
  /**
   * Names of what it writes that jobs of other processes write too, apart from its chains: locked before any job runs.
   */
  locks?: readonly string[] | undefined;
  /** True when the job may run in a batch: none of its decisions depend on rows that other batch jobs write. */
  batch?: boolean;
  /** Whose turn in the queue the job uses; by default the service's. */
  owner?: Owner | undefined;
  /** How many ordinary jobs it counts as in a group, by its duration; 1 by default. */
  weight?: number | undefined;
  work(tx: Tx): Promise<JobResult<T>>;
};

export type QueuedJob = {
  job: Job<unknown>;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
  outcome?: JobResult<unknown> | undefined;
  entries?: PreparedEntry[];
  /** Approximate bytes that the job wrote. */
  bytes?: number;
  error?: unknown;
  /** When another process held one of its locks for the first time, by `performance.now()`. */
  blockedAt?: number;
};

/** The error that a job's caller receives for a database error. A start names the disk that the cause is about. */
export function failureOfJob(errorClass: ErrorClass, error: unknown): unknown {
  if (error instanceof Failure) return error;
  if (errorClass === "full") return Object.assign(fail("storage_full"), { cause: error });
  if (errorClass === "readonly") return fail("read_only");
  if (["lost", "busy", "slow", "fatal"].includes(errorClass)) return fail("unavailable");
  return error;
}

export function settleGroup(group: QueuedJob[]): void {
  for (const { outcome, error, resolve, reject } of group) {
    if (error === undefined && outcome) resolve(outcome.value);
    else reject(error);
  }
}

/** Splits a group: adjacent batch jobs form one segment, every other job is a segment of its own. */
export function segmentsOf(group: QueuedJob[]): QueuedJob[][] {
  const result: QueuedJob[][] = [];
  for (const pending of group) {
    const last = result.at(-1);
    if (pending.job.batch && last?.[0]?.job.batch) last.push(pending);
    else result.push([pending]);
  }
  return result;
}

/** `Promise.all` that rejects only when all have settled: none of them still writes when the caller rolls back. */
export async function settleAll<A, B>(works: readonly [Promise<A>, Promise<B>]): Promise<[A, B]> {
  try {
    return await Promise.all(works);
  } catch (error) {
    await Promise.allSettled(works);
    throw error;
  }
}
