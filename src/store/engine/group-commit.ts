// Durable group commit: queued mutations run in one transaction, each in its own savepoint, and resolve only after it
// is durable. A failing job rolls back alone. Owners take turns: a group has jobs of each that waits. Sequence and
// reasons: docs/design/0001-durable-group-commit.md.
import { randomInt } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { fail, Failure } from "../../kernel/errors.ts";
import { LoopShare, yieldToEventLoop } from "../../platform/event-loop.ts";
import { appendEntries, dropEmptyHeads, prepareEntries, type AuditHeads } from "./audit-ledger.ts";
import type { Driver } from "./driver.ts";
import { GroupLocks } from "./group-locks.ts";
import { segmentsOf, settleAll, settleGroup, failureOfJob, type Job, type QueuedJob } from "./job.ts";
import { wasCommitted } from "./lost-commit.ts";
import { PolicyVersions, type VersionChange } from "./policy-versions.ts";
import type { Tx } from "./tx.ts";
import { Batch, JobTransaction } from "./transaction.ts";
import { WriteQueue } from "./write-queue.ts";

const GROUP_MAX = 200;
const ATTEMPTS_MAX = 3;
/** How long a job waits for a lock that another process holds. */
const BLOCKED_MAX_MS = 6_000;

export type GroupCommitEvents = {
  now: () => number;
  /** Called after a commit is durable. */
  committed: (changes: VersionChange[], group: readonly QueuedJob[]) => void;
  /** The storage can no longer be trusted: the process must end. */
  fatal: (error: unknown) => void;
};

/** State that the jobs of one transaction share. */
type GroupState = { heads: AuditHeads; versions: PolicyVersions };

type RunOne = (pending: QueuedJob, i: number) => Promise<void>;
type RequiresRollback = (result: PromiseSettledResult<void>, i: number) => boolean;

export class GroupCommit {
  readonly #driver: Driver;
  readonly #events: GroupCommitEvents;
  readonly #locks: GroupLocks;
  readonly queue = new WriteQueue();
  #draining: Promise<void> | undefined;
  /** Jobs let reads run in between: a large group must not block them. */
  #loop = new LoopShare();
  #closed = false;
  #broken = false;

  constructor(driver: Driver, events: GroupCommitEvents) {
    this.#driver = driver;
    this.#events = events;
    this.#locks = new GroupLocks(driver);
  }

  submit<T>(job: Job<T>): Promise<T> {
    if (this.#broken) return Promise.reject(fail("unavailable"));
    if (this.#closed) return Promise.reject(fail("stopping"));
    return new Promise<T>((resolve, reject) => {
      this.queue.push({ job, resolve: resolve as (value: unknown) => void, reject });
      this.#draining ??= this.#drain();
    });
  }

  /** Checkpoints the write-ahead log between two groups, unless new jobs have arrived. */
  async checkpointIfIdle(): Promise<void> {
    await this.#draining;
    if (this.#draining || this.#closed || this.#broken) return; // not idle any more
    const checkpoint = this.#driver.checkpointIfDue(true);
    this.#draining = checkpoint.catch((error) => this.#failStorage(error)).then(() => this.#drain());
    await checkpoint;
  }

  /** Rejects new jobs and resolves when every accepted job is settled. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#draining;
  }

  async #drain(): Promise<void> {
    try {
      await yieldToEventLoop(); // collect the jobs that this event loop turn still submits
      while (this.queue.length > 0) {
        const group = this.queue.takeGroup(GROUP_MAX);
        await this.#commit(group);
        await this.#driver.checkpointIfDue().catch((error) => this.#failStorage(error));
      }
    } finally {
      this.#draining = undefined;
    }
  }

  /** Storage failed: reject queued and future writes. */
  #failStorage(error: unknown): void {
    this.#broken = true;
    this.#events.fatal(error);
    for (const pending of this.queue.takeAll()) pending.reject(fail("unavailable"));
  }

  async #commit(group: QueuedJob[]): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        const changes = await this.#transact(group);
        if (changes) {
          await this.#sync();
          this.#events.committed(changes, group);
        }
        return settleGroup(group);
      } catch (error) {
        // Busy means that nothing was committed, so the same jobs may run again.
        if (this.#driver.classifyError(error) !== "busy" || attempt === ATTEMPTS_MAX)
          return this.#failGroup(group, error);
        await this.#driver.writer.exec("rollback").catch(() => {});
        await sleep(randomInt(5, 50) * attempt);
      }
    }
  }

  async #sync(): Promise<void> {
    try {
      await this.#driver.sync();
    } catch (error) {
      this.#failStorage(error);
      throw fail("unavailable");
    }
  }

  /** Removes a job from its group: it waits for its lock in the queue, for some time. */
  #postpone(group: QueuedJob[], pending: QueuedJob): void {
    group.splice(group.indexOf(pending), 1);
    pending.blockedAt ??= performance.now();
    if (performance.now() - pending.blockedAt < BLOCKED_MAX_MS) this.queue.push(pending);
    else pending.reject(fail("unavailable", { retryAfterSeconds: 1 }));
  }

  /** Returns the policy changes, or undefined when nothing was written, so that nothing needs a sync. */
  async #transact(group: QueuedJob[]): Promise<VersionChange[] | undefined> {
    const driver = this.#driver;
    for (const pending of group) pending.outcome = pending.error = undefined;
    await driver.begin();
    const versions = new PolicyVersions();
    const own = new JobTransaction(driver, versions);
    const tx = own.branded;
    try {
      const { heads, blocked } = await this.#locks.lock(tx, group);
      for (const pending of blocked) this.#postpone(group, pending);
      const changes: VersionChange[] = [];
      this.#loop = new LoopShare();
      for (const segment of segmentsOf(group)) {
        await this.#runSegment(segment, { heads, versions });
        changes.push(...(await this.#recordSegment(tx, segment, { heads, versions })));
      }
      const isChanged = group.some(({ outcome }) => outcome && !outcome.unchanged);
      if (isChanged) await dropEmptyHeads(tx, heads);
      await driver.writer.exec(isChanged ? "commit" : "rollback");
      return isChanged ? changes : undefined;
    } finally {
      own.close(); // before a rollback: a later statement would be committed with the next group
    }
  }

  async #runSegment(segment: QueuedJob[], state: GroupState): Promise<void> {
    if (segment.length > 1 && (await this.#runBatch(segment, state))) return;
    for (const pending of segment) {
      await this.#runInSavepoint(pending, state);
      await this.#loop.yieldIfDue();
    }
  }

  /** Runs the job and prepares its audit rows: every failure that one job alone can cause happens in here. */
  async #runJob(pending: QueuedJob, tx: JobTransaction, { heads }: GroupState): Promise<void> {
    try {
      const outcome = await pending.job.work(tx.branded);
      pending.entries = outcome.unchanged ? [] : prepareEntries(heads, outcome.entries);
      pending.outcome = outcome;
      pending.bytes = tx.bytes;
    } finally {
      tx.close();
    }
  }

  async #runInSavepoint(pending: QueuedJob, state: GroupState): Promise<void> {
    const { writer } = this.#driver;
    const tx = new JobTransaction(this.#driver, state.versions);
    const rollBack = async (): Promise<void> => {
      state.versions.undo(tx.undo);
      if (!tx.wrote) return;
      await writer.exec("rollback to savepoint job");
    };
    writer.execNoWait("savepoint job");
    try {
      await this.#runJob(pending, tx, state);
      if (pending.outcome?.unchanged) await rollBack();
    } catch (error) {
      if (this.#endsTransaction(error)) throw error;
      tx.wrote = true; // PostgreSQL accepts no statement after a failed one until a rollback
      await rollBack();
      pending.error = failureOfJob(this.#driver.classifyError(error), error);
    }
    writer.execNoWait("release savepoint job");
  }

  /** Whether the error ended the whole transaction, not only the job's savepoint. */
  #endsTransaction(error: unknown): boolean {
    return ["full", "fatal", "lost", "busy"].includes(this.#driver.classifyError(error));
  }

  /** Runs all jobs in one savepoint. If one needs a rollback, rolls back all and returns false. bench: vendor/mint */
  async #runBatch(segment: QueuedJob[], state: GroupState): Promise<boolean> {
    const { writer } = this.#driver;
    writer.execNoWait("savepoint jobs");
    const batch = new Batch();
    const txs = segment.map(() => new JobTransaction(this.#driver, state.versions, batch));
    const run: RunOne = (pending, i) => this.#runJob(pending, txs[i] as JobTransaction, state);
    const requiresRollback = (result: PromiseSettledResult<void>, i: number): boolean => {
      if (result.status === "fulfilled") return Boolean(segment[i]?.outcome?.unchanged && txs[i]?.wrote);
      return Boolean(txs[i]?.wrote) || !(result.reason instanceof Failure);
    };
    // PostgreSQL pipelines the statements of all jobs on the one connection.
    const results = await (this.#driver.dialect === "postgres"
      ? this.#runConcurrently(segment, run)
      : this.#runSequentially(segment, run, requiresRollback));
    // A rejected deferred insert also falls back to one savepoint per job, which shows whose insert it was.
    const flushed = !results.some(requiresRollback) && (await this.#flush(batch));
    if (!flushed) {
      for (const pending of segment) pending.outcome = undefined;
      await state.versions.discardUnwritten();
      await writer.exec("rollback to savepoint jobs");
      return false;
    }
    for (const [i, result] of results.entries())
      if (result.status === "rejected") (segment[i] as QueuedJob).error = result.reason;
    writer.execNoWait("release savepoint jobs");
    return true;
  }

  async #runConcurrently(segment: readonly QueuedJob[], run: RunOne): Promise<PromiseSettledResult<void>[]> {
    const results = await Promise.allSettled(segment.map(run));
    for (const result of results)
      if (result.status === "rejected" && this.#endsTransaction(result.reason)) throw result.reason;
    return results;
  }

  /** On SQLite a job blocks the event loop, so this yields between jobs. Stops at a job that requires a rollback. */
  async #runSequentially(
    segment: readonly QueuedJob[],
    run: RunOne,
    requiresRollback: RequiresRollback,
  ): Promise<PromiseSettledResult<void>[]> {
    const results: PromiseSettledResult<void>[] = [];
    for (const [i, pending] of segment.entries()) {
      const [result] = await Promise.allSettled([run(pending, i)]);
      if (result.status === "rejected" && this.#endsTransaction(result.reason)) throw result.reason;
      results.push(result);
      if (requiresRollback(result, i)) break;
      await this.#loop.yieldIfDue();
    }
    return results;
  }

  async #flush(batch: Batch): Promise<boolean> {
    try {
      await batch.flush(this.#driver);
      return true;
    } catch (error) {
      if (this.#endsTransaction(error)) throw error;
      return false;
    }
  }

  /** Writes the audit rows and policy versions of a segment's jobs. */
  async #recordSegment(tx: Tx, segment: QueuedJob[], { heads, versions }: GroupState): Promise<VersionChange[]> {
    const now = this.#events.now();
    const entries = segment.flatMap((pending) => (pending.outcome ? (pending.entries ?? []) : []));
    const appending = appendEntries(tx, heads, entries, { now, loop: this.#loop });
    return (await settleAll([appending, versions.write(tx, now)]))[1];
  }

  /** The transaction failed as a whole. Jobs are reported as done only if it is certain that the commit took effect. */
  async #failGroup(group: QueuedJob[], error: unknown): Promise<void> {
    const errorClass = this.#driver.classifyError(error);
    if (errorClass === "fatal") this.#failStorage(error);
    if (errorClass === "lost" && (await wasCommitted(this.#driver, group))) {
      this.#events.committed([], group);
      return settleGroup(group);
    }
    if (errorClass !== "lost") await this.#driver.writer.exec("rollback").catch(() => {});
    const failure = failureOfJob(errorClass, error);
    for (const pending of group) pending.reject(failure);
  }
}
