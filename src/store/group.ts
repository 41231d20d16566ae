// The durable group commit. Mutations queue; the writer drains the queue into one transaction and answers all of them
// only after it is durable. A failing one rolls back alone; a lone one does not wait for company.
import { randomInt } from "node:crypto";
import { fail, Failure } from "../kernel/errors.ts";
import type { Driver } from "./driver.ts";
import { Batch, JobTx } from "./job-tx.ts";
import { appendEntries, dropEmptyHeads, lockHeads, prepareEntries } from "./ledger.ts";
import type { Entry, Heads, PreparedEntry } from "./ledger.ts";
import { statement, type Tx } from "./statement.ts";
import { Versions, type Bumped } from "./versions.ts";

const GROUP_MAX = 200;
const BACKLOG_MAX = 10_000;
const HOLD_LOOP_MS = 2;
const ATTEMPTS_MAX = 3;

/** What a job leaves behind: its answer, and the audit rows that record it. `unchanged` rolls its writes back. */
export type Outcome<T> = { value: T; entries: readonly Entry[]; unchanged?: boolean };

export type Job<T> = {
  /** The chains this job appends to; their heads are locked before any work. */
  chains: readonly string[];
  /** True when the job may run beside others of its kind: it decides on nothing that they write. */
  batch?: boolean;
  work(tx: Tx): Promise<Outcome<T>>;
};

type Pending = {
  job: Job<unknown>;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
  outcome?: Outcome<unknown> | undefined;
  entries?: PreparedEntry[];
  error?: unknown;
};

export type GroupEvents = {
  now: () => number;
  /** After the commit is durable: what moved, so that caches and waiting polls learn of it. */
  committed: (bumped: Bumped[], size: number) => void;
  /** The storage cannot be trusted any more: the process must end. */
  fatal: (error: unknown) => void;
};

/** What the jobs of one transaction share. */
type Shared = { heads: Heads; versions: Versions };

const auditById = statement<{ id: string }>()((db, p) =>
  db.selectFrom("audit_log").select("seq").where("id", "=", p.id),
);

export class GroupCommit {
  readonly #driver: Driver;
  readonly #events: GroupEvents;
  #queue: Pending[] = [];
  #draining: Promise<void> | undefined;
  #closed = false;
  #broken = false;

  constructor(driver: Driver, events: GroupEvents) {
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
  async rest(): Promise<void> {
    await this.#draining;
    if (this.#draining || this.#closed || this.#broken) return; // somebody was quicker: the store does not rest now
    const rested = this.#driver.rest(true);
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
      while (this.#queue.length > 0) {
        const group = this.#queue.splice(0, GROUP_MAX);
        await this.#commit(group);
        await this.#driver.rest().catch((error) => this.#stop(error));
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
        if (this.#driver.trouble(error) !== "busy" || attempt === ATTEMPTS_MAX) return this.#abandon(group, error);
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
    const versions = new Versions();
    const tx = new JobTx(driver, versions).branded;
    const heads = await lockHeads(
      tx,
      group.flatMap((pending) => pending.job.chains),
    );
    const bumped: Bumped[] = [];
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
    if (this.#driver.sideBySide && segment.length > 1 && (await this.#runTogether(segment, shared))) return;
    let since = performance.now();
    const batch = segment.length > 1 && !this.#driver.sideBySide ? new Batch() : undefined;
    for (const pending of segment) {
      await this.#runAlone(pending, shared, batch);
      if (performance.now() - since > HOLD_LOOP_MS) {
        await new Promise((resolve) => setImmediate(resolve)); // requests that only read must not wait for the group
        since = performance.now();
      }
    }
  }

  /** The job's own part, up to audit rows that surely can be written: whatever it does wrong is its own failure. */
  async #runJob(pending: Pending, tx: JobTx, { heads }: Shared): Promise<void> {
    try {
      const outcome = await pending.job.work(tx.branded);
      pending.entries = outcome.unchanged ? [] : prepareEntries(heads, outcome.entries);
      pending.outcome = outcome;
    } finally {
      tx.end();
    }
  }

  async #runAlone(pending: Pending, shared: Shared, batch: Batch | undefined): Promise<void> {
    const { writer } = this.#driver;
    const tx = new JobTx(this.#driver, shared.versions, batch);
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
      if (["full", "fatal", "lost", "busy"].includes(this.#driver.trouble(error))) throw error;
      tx.wrote = true; // the statement itself may have failed half-way: PostgreSQL goes on only after a roll-back
      await rollBack();
      pending.error = refusalFor(this.#driver.trouble(error), error);
    }
    writer.post("release savepoint job");
  }

  /** All jobs at once on a pipelined connection, without a savepoint each. False: one must be undone, so all were. */
  async #runTogether(segment: Pending[], shared: Shared): Promise<boolean> {
    const { writer } = this.#driver;
    writer.post("savepoint jobs");
    const batch = new Batch();
    const txs = segment.map(() => new JobTx(this.#driver, shared.versions, batch));
    const results = await Promise.allSettled(
      segment.map((pending, i) => this.#runJob(pending, txs[i] as JobTx, shared)),
    );
    const spoilt = results.some((result, i) => {
      if (result.status === "fulfilled") return segment[i]?.outcome?.unchanged && txs[i]?.wrote;
      return txs[i]?.wrote || !(result.reason instanceof Failure);
    });
    // One by one, the jobs then learn whose insert it was.
    const inserted =
      !spoilt &&
      (await batch.insert(this.#driver).then(
        () => true,
        () => false,
      ));
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

  async #seal(tx: Tx, segment: Pending[], { heads, versions }: Shared): Promise<Bumped[]> {
    const now = this.#events.now();
    const entries = segment.flatMap((pending) => (pending.outcome ? (pending.entries ?? []) : []));
    const [, bumped] = await Promise.all([appendEntries(tx, heads, entries, now), versions.write(tx, now)]);
    await Promise.all(bumped.map(({ project_id, version }) => this.#driver.notify(`policy ${project_id} ${version}`)));
    return bumped;
  }

  /** The transaction failed as a whole: nobody gets an answer that is not true. */
  async #abandon(group: Pending[], error: unknown): Promise<void> {
    const trouble = this.#driver.trouble(error);
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

function refusalFor(trouble: string, error: unknown): unknown {
  if (error instanceof Failure) return error;
  if (trouble === "full") return fail("storage_full", { retryAfterSeconds: 5 });
  if (["lost", "busy", "slow", "fatal"].includes(trouble)) return fail("unavailable", { retryAfterSeconds: 1 });
  return error;
}

function settle(group: Pending[]): void {
  for (const { outcome, error, resolve, reject } of group) {
    if (error === undefined && outcome) resolve(outcome.value);
    else reject(error);
  }
}

/** Neighbours that may run together form one segment; every other job is a segment of its own. */
function segments(group: Pending[]): Pending[][] {
  const result: Pending[][] = [];
  for (const pending of group) {
    const last = result.at(-1);
    if (pending.job.batch && last?.[0]?.job.batch) last.push(pending);
    else result.push([pending]);
  }
  return result;
}
