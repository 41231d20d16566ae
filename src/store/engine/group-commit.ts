// The durable group commit. Mutations queue; the writer drains the queue into one transaction and answers all of them
// only after it is durable. A failing one rolls back alone; a lone one waits for no more company than its turn brings.
import { randomInt } from "node:crypto";
import { fail, Failure } from "../../kernel/errors.ts";
import type { Driver } from "./driver.ts";
import { refusalFor, segments, settle, settled, type Job, type Pending } from "./job.ts";
import { Batch, JobTransaction } from "./transaction.ts";
import { appendEntries, dropEmptyHeads, lockHeads, prepareEntries } from "./audit-ledger.ts";
import type { Heads } from "./audit-ledger.ts";
import { statement, type Tx } from "./statement.ts";
import { PolicyVersions, type Bumped } from "./policy-versions.ts";

const GROUP_MAX = 200;
const BACKLOG_MAX = 10_000;
const HOLD_LOOP_MS = 2;
const ATTEMPTS_MAX = 3;

export type GroupCommitEvents = {
  now: () => number;
  /** After the commit is durable: what moved, so that caches and waiting polls learn of it. */
  committed: (bumped: Bumped[], size: number) => void;
  /** The storage cannot be trusted any more: the process must end. */
  fatal: (error: unknown) => void;
};

/** What the jobs of one transaction share. */
type Shared = { heads: Heads; versions: PolicyVersions };

type RunOne = (pending: Pending, i: number) => Promise<void>;
type Spoils = (result: PromiseSettledResult<void>, i: number) => boolean;

const auditById = statement<{ id: string }>()((db, p) =>
  db.selectFrom("audit_log").select("seq").where("id", "=", p.id),
);

export class GroupCommit {
  readonly #driver: Driver;
  readonly #events: GroupCommitEvents;
  #queue: Pending[] = [];
  #draining: Promise<void> | undefined;
  #breathedAt = 0;
  #closed = false;
  #broken = false;

  constructor(driver: Driver, events: GroupCommitEvents) {
    this.#driver = driver;
    this.#events = events;
  }

  submit<T>(job: Job<T>): Promise<T> {
    if (this.#broken) return Promise.reject(fail("unavailable", { retryAfterSeconds: 1 }));
    if (this.#closed) return Promise.reject(fail("stopping", { retryAfterSeconds: 1 }));
    if (this.#queue.length >= BACKLOG_MAX) return Promise.reject(fail("overloaded", { retryAfterSeconds: 1 }));
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ job, resolve: resolve as (value: unknown) => void, reject });
      this.#draining ??= this.#drain();
    });
  }

  get backlog(): number {
    return this.#queue.length;
  }

  /** House-keeping between two groups, for a moment in which nothing is asked. */
  async checkpointIfIdle(): Promise<void> {
    await this.#draining;
    if (this.#draining || this.#closed || this.#broken) return; // somebody was quicker: the store does not rest now
    const rested = this.#driver.checkpointIfDue(true);
    this.#draining = rested.catch((error) => this.#stop(error)).then(() => this.#drain());
    await rested;
  }

  /** Refuses new work and resolves when everything accepted has been answered. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#draining;
  }

  async #drain(): Promise<void> {
    try {
      await new Promise((resolve) => setImmediate(resolve)); // what this turn of the event loop still brings comes along
      while (this.#queue.length > 0) {
        const group = this.#queue.splice(0, GROUP_MAX);
        await this.#commit(group);
        await this.#driver.checkpointIfDue().catch((error) => this.#stop(error));
      }
    } finally {
      this.#draining = undefined;
    }
  }

  /** The storage broke a promise: nothing is written any more, and those who wait are told so. */
  #stop(error: unknown): void {
    this.#broken = true;
    this.#events.fatal(error);
    for (const pending of this.#queue.splice(0)) pending.reject(fail("unavailable", { retryAfterSeconds: 1 }));
  }

  async #commit(group: Pending[]): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        const bumped = await this.#transact(group);
        if (bumped) {
          await this.#sync();
          this.#events.committed(bumped, group.length);
        }
        return settle(group);
      } catch (error) {
        // Another process held the lock or closed a circle: nothing was committed, so the same work may run again.
        if (this.#driver.classifyError(error) !== "busy" || attempt === ATTEMPTS_MAX)
          return this.#abandon(group, error);
        await this.#driver.writer.exec("rollback").catch(() => {});
        await new Promise((resolve) => setTimeout(resolve, randomInt(5, 50) * attempt));
      }
    }
  }

  async #sync(): Promise<void> {
    try {
      await this.#driver.sync();
    } catch (error) {
      this.#stop(error);
      throw fail("unavailable", { retryAfterSeconds: 1 });
    }
  }

  /** Answers what moved, or undefined when nothing was written and there is nothing to make durable. */
  async #transact(group: Pending[]): Promise<Bumped[] | undefined> {
    const driver = this.#driver;
    for (const pending of group) pending.outcome = pending.error = undefined;
    await driver.begin();
    const versions = new PolicyVersions();
    const tx = new JobTransaction(driver, versions).branded;
    const heads = await lockHeads(
      tx,
      group.flatMap((pending) => pending.job.chains),
      driver.exclusive,
    );
    const bumped: Bumped[] = [];
    this.#breathedAt = performance.now();
    for (const segment of segments(group)) {
      await this.#runSegment(segment, { heads, versions });
      bumped.push(...(await this.#seal(tx, segment, { heads, versions })));
    }
    if (!group.some(({ outcome }) => outcome && !outcome.unchanged)) {
      await driver.writer.exec("rollback");
      return undefined;
    }
    await dropEmptyHeads(tx, heads);
    await driver.writer.exec("commit");
    return bumped;
  }

  async #runSegment(segment: Pending[], shared: Shared): Promise<void> {
    if (segment.length > 1 && (await this.#runTogether(segment, shared))) return;
    for (const pending of segment) {
      await this.#runAlone(pending, shared);
      await this.#breathe();
    }
  }

  /** Requests that only read must not wait for a whole group. */
  async #breathe(): Promise<void> {
    if (performance.now() - this.#breathedAt <= HOLD_LOOP_MS) return;
    await new Promise((resolve) => setImmediate(resolve));
    this.#breathedAt = performance.now();
  }

  /** The job's own part, up to audit rows that surely can be written: whatever it does wrong is its own failure. */
  async #runJob(pending: Pending, tx: JobTransaction, { heads }: Shared): Promise<void> {
    try {
      const outcome = await pending.job.work(tx.branded);
      pending.entries = outcome.unchanged ? [] : prepareEntries(heads, outcome.entries);
      pending.outcome = outcome;
    } finally {
      tx.end();
    }
  }

  async #runAlone(pending: Pending, shared: Shared): Promise<void> {
    const { writer } = this.#driver;
    const tx = new JobTransaction(this.#driver, shared.versions);
    const rollBack = async (): Promise<void> => {
      shared.versions.undo(tx.undo);
      if (!tx.wrote) return;
      await writer.exec("rollback to savepoint job");
    };
    writer.post("savepoint job");
    try {
      await this.#runJob(pending, tx, shared);
      if (pending.outcome?.unchanged) await rollBack();
    } catch (error) {
      if (this.#isGrave(error)) throw error;
      tx.wrote = true; // the statement itself may have failed half-way: PostgreSQL goes on only after a roll-back
      await rollBack();
      pending.error = refusalFor(this.#driver.classifyError(error), error);
    }
    writer.post("release savepoint job");
  }

  /** Not the job's own: the transaction is gone with it. */
  #isGrave(error: unknown): boolean {
    return ["full", "fatal", "lost", "busy"].includes(this.#driver.classifyError(error));
  }

  /** All jobs without a savepoint each. False: one must be undone, so all were. */
  async #runTogether(segment: Pending[], shared: Shared): Promise<boolean> {
    const { writer } = this.#driver;
    writer.post("savepoint jobs");
    const batch = new Batch();
    const txs = segment.map(() => new JobTransaction(this.#driver, shared.versions, batch));
    const run = (pending: Pending, i: number): Promise<void> => this.#runJob(pending, txs[i] as JobTransaction, shared);
    const spoils = (result: PromiseSettledResult<void>, i: number): boolean => {
      if (result.status === "fulfilled") return Boolean(segment[i]?.outcome?.unchanged && txs[i]?.wrote);
      return Boolean(txs[i]?.wrote) || !(result.reason instanceof Failure);
    };
    const results = await (this.#driver.sideBySide ? this.#atOnce(segment, run) : this.#inTurn(segment, run, spoils));
    const spoilt = results.some(spoils);
    // One by one, the jobs then learn whose insert it was.
    const inserted = !spoilt && (await this.#insertAll(batch));
    if (!inserted) {
      for (const pending of segment) pending.outcome = undefined;
      await shared.versions.forgetUnwritten();
      await writer.exec("rollback to savepoint jobs");
      return false;
    }
    for (const [i, result] of results.entries())
      if (result.status === "rejected") (segment[i] as Pending).error = result.reason;
    writer.post("release savepoint jobs");
    return true;
  }

  async #atOnce(segment: readonly Pending[], run: RunOne): Promise<PromiseSettledResult<void>[]> {
    const results = await Promise.allSettled(segment.map(run));
    for (const result of results) if (result.status === "rejected" && this.#isGrave(result.reason)) throw result.reason;
    return results;
  }

  /** On SQLite a job has the event loop to itself: others are served between two of them. Ends with a job that spoils. */
  async #inTurn(segment: readonly Pending[], run: RunOne, spoils: Spoils): Promise<PromiseSettledResult<void>[]> {
    const results: PromiseSettledResult<void>[] = [];
    for (const [i, pending] of segment.entries()) {
      const result = await settled(run(pending, i));
      if (result.status === "rejected" && this.#isGrave(result.reason)) throw result.reason;
      results.push(result);
      if (spoils(result, i)) break;
      await this.#breathe();
    }
    return results;
  }

  async #insertAll(batch: Batch): Promise<boolean> {
    try {
      await batch.insert(this.#driver);
      return true;
    } catch (error) {
      if (this.#isGrave(error)) throw error;
      return false;
    }
  }

  async #seal(tx: Tx, segment: Pending[], { heads, versions }: Shared): Promise<Bumped[]> {
    const now = this.#events.now();
    const entries = segment.flatMap((pending) => (pending.outcome ? (pending.entries ?? []) : []));
    const [, bumped] = await Promise.all([appendEntries(tx, heads, entries, now), versions.write(tx, now)]);
    await Promise.all(bumped.map(({ project_id, version }) => this.#driver.notify(`policy ${project_id} ${version}`)));
    return bumped;
  }

  /** The transaction failed as a whole: nobody gets an answer that is not true. */
  async #abandon(group: Pending[], error: unknown): Promise<void> {
    const trouble = this.#driver.classifyError(error);
    if (trouble === "fatal") this.#stop(error);
    if (trouble === "lost" && (await this.#landed(group))) {
      this.#events.committed([], group.length);
      return settle(group);
    }
    if (trouble !== "lost") await this.#driver.writer.exec("rollback").catch(() => {});
    const refusal = refusalFor(trouble, error);
    for (const pending of group) pending.reject(refusal);
  }

  /** The connection broke at COMMIT: the ids of our audit rows tell whether it took effect. Never a blind retry. */
  async #landed(group: Pending[]): Promise<boolean> {
    const entry = group.flatMap(({ outcome }) => outcome?.entries ?? [])[0];
    try {
      await this.#driver.reconnect();
      return entry !== undefined && (await auditById.first(this.#driver.reader, { id: entry.id })) !== undefined;
    } catch {
      return false;
    }
  }
}
