// What runs beside requests: checkpoints, mail, key rotation, backups and reaping. One loop; a job that fails is logged and tried
// again. Of several processes on one PostgreSQL the leader alone runs it, but for what only the process itself can do.
import { runDueBackup, runDueRestoreTest } from "../backup/schedule.ts";
import { runCheckpoints } from "../domain/audit/checkpoints.ts";
import type { Services } from "../domain/core/context.ts";
import { maintainEmbedKeys } from "../domain/embed/signing-keys.ts";
import { CONSECUTIVE_FAILURES_MAX } from "../domain/auth/login-throttle.ts";
import { record } from "../domain/core/record.ts";
import { reapDeltaLog, reapSilentNodes } from "../domain/policy/retention.ts";
import { deliverDue, reapOutbox } from "../domain/mail/outbox.ts";
import { reapIdempotency } from "../domain/limits/idempotency.ts";
import { reapIngest } from "../domain/usage/ingest.ts";
import { flushAllCounters, flushCounters, reapSavedCounters } from "../domain/limits/ratelimit.ts";
import { reapUsage } from "../domain/usage/usage.ts";
import { reapKeptAnswers } from "../store/queries/idempotency-replays.ts";
import { reapLoginFailures, reapLoginNetworks } from "../store/queries/logins.ts";
import { reapTokens } from "../store/queries/one-time-tokens.ts";
import { reapSessions } from "../store/queries/sessions.ts";

/** A new job is one more line in `jobsOf`. Two leaders may overlap for a moment, so a job must bear to run twice. */
export type Job = {
  name: string;
  everyMs: number;
  run: () => Promise<unknown>;
  /** It is about this process's own memory: every process runs it, whoever leads. */
  everyProcess?: true;
};

const TICK_MS = 1_000;
const MAIL_EVERY_MS = 5_000;
const FLUSH_EVERY_MS = 5_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const CHECKPOINT_ROWS = 1_000;

export type Scheduler = {
  /** Resolves when nothing is running. */
  idle(): Promise<void>;
  stop(): Promise<void>;
};

/** For an instance that only reads. */
export const idleScheduler: Scheduler = { idle: async () => {}, stop: async () => {} };

/** What people leave behind and nobody needs any more. */
async function reapPeople(services: Services): Promise<void> {
  const now = services.clock.now();
  await record(services, async (tx) => {
    await reapSessions.run(tx, { before: now - 30 * DAY_MS });
    await reapTokens.run(tx, { before: now - 7 * DAY_MS });
    await reapLoginNetworks.run(tx, { before: now - 30 * DAY_MS });
    await reapLoginFailures.run(tx, { before: now - 90 * DAY_MS, max: CONSECUTIVE_FAILURES_MAX });
  });
}

export function jobsOf(services: Services): { mail: Job; others: Job[] } {
  return {
    mail: { name: "mail", everyMs: MAIL_EVERY_MS, run: () => deliverDue(services) },
    others: [
      { name: "checkpoints", everyMs: MINUTE_MS, run: () => runCheckpoints(services) },
      {
        name: "checkpoints of busy chains",
        everyMs: 5_000,
        run: () => runCheckpoints(services, { rows: CHECKPOINT_ROWS }),
      },
      { name: "signing keys", everyMs: MINUTE_MS, run: () => maintainEmbedKeys(services) },
      {
        name: "kept answers",
        everyMs: MINUTE_MS,
        run: () => record(services, (tx) => reapKeptAnswers.run(tx, { now: services.clock.now() })),
      },
      { name: "silent nodes", everyMs: 10 * MINUTE_MS, run: () => reapSilentNodes(services) },
      { name: "delta log", everyMs: HOUR_MS, run: () => reapDeltaLog(services) },
      { name: "idempotency records", everyMs: MINUTE_MS, run: () => reapIdempotency(services) },
      { name: "rate counters", everyMs: FLUSH_EVERY_MS, run: () => flushCounters(services), everyProcess: true },
      { name: "lapsed rate counters", everyMs: MINUTE_MS, run: () => reapSavedCounters(services) },
      { name: "ingest receipts", everyMs: MINUTE_MS, run: () => reapIngest(services) },
      { name: "daily usage", everyMs: HOUR_MS, run: () => reapUsage(services) },
      { name: "backup", everyMs: MINUTE_MS, run: () => runDueBackup(services) },
      { name: "restore test", everyMs: MINUTE_MS, run: () => runDueRestoreTest(services) },
      { name: "old mail", everyMs: HOUR_MS, run: () => reapOutbox(services) },
      { name: "old sessions", everyMs: HOUR_MS, run: () => reapPeople(services) },
      { name: "database house-keeping", everyMs: 5 * MINUTE_MS, run: () => services.store.checkpointIfIdle() },
    ],
  };
}

/** Runs jobs when they are due, each one alone, and remembers which of them fail. */
class Loop {
  readonly #services: Services;
  readonly #jobs: readonly Job[];
  readonly #last = new Map<Job, number>();
  readonly #running = new Set<Promise<unknown>>();
  readonly #busy = new Set<Job>();
  readonly #again = new Set<Job>();
  readonly #timer: NodeJS.Timeout;
  #ticking: Promise<void> | undefined;
  #stopping = false;

  constructor(services: Services, jobs: readonly Job[]) {
    this.#services = services;
    this.#jobs = jobs;
    for (const job of jobs) this.#last.set(job, services.clock.now());
    this.#timer = setInterval(() => this.#tick(), TICK_MS).unref();
    this.#tick();
  }

  /** Starts a job now; one that is running may have looked already, so it runs once more. */
  wake(job: Job): void {
    if (this.#busy.has(job)) this.#again.add(job);
    else if (!this.#stopping) this.#start(job);
  }

  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running);
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#timer);
    await this.#ticking;
    await this.idle();
  }

  #tick(): void {
    if (this.#ticking || this.#stopping) return;
    this.#ticking = this.#lead().then(() => {
      this.#ticking = undefined;
      if (!this.#stopping) this.#startDue();
    });
  }

  async #lead(): Promise<void> {
    const { store, worker, log } = this.#services;
    const leads = await store.tryBecomeLeader().catch(() => false);
    if (leads !== worker.leads && store.dialect === "postgres")
      log.info(leads ? "this process leads" : "this process leads no more");
    worker.leads = leads;
  }

  #startDue(): void {
    const now = this.#services.clock.now();
    for (const job of this.#jobs) {
      if (this.#busy.has(job) || !(this.#services.worker.leads || job.everyProcess)) continue;
      if (now - (this.#last.get(job) ?? 0) >= job.everyMs) this.#start(job);
    }
  }

  #start(job: Job): void {
    this.#last.set(job, this.#services.clock.now());
    this.#busy.add(job);
    const done = this.#run(job).then(() => {
      this.#busy.delete(job);
      this.#running.delete(done);
      if (this.#again.delete(job) && !this.#stopping) this.#start(job);
    });
    this.#running.add(done);
  }

  async #run(job: Job): Promise<void> {
    const { worker, log } = this.#services;
    try {
      await job.run();
      worker.failing.delete(job.name);
    } catch (error) {
      worker.failing.add(job.name);
      log.error("job failed", { job: job.name, error: String(error) });
    }
  }
}

export function startScheduler(services: Services): Scheduler {
  const { mail, others } = jobsOf(services);
  const loop = new Loop(services, [mail, ...others]);
  services.mail.wake = () => loop.wake(mail);
  loop.wake(mail); // what an earlier run left behind
  return {
    idle: () => loop.idle(),
    async stop() {
      await loop.stop();
      await runCheckpoints(services).catch((error) =>
        services.log.error("last checkpoint failed", { error: String(error) }),
      );
      await flushAllCounters(services).catch((error) =>
        services.log.error("counters were not saved", { error: String(error) }),
      );
    },
  };
}
