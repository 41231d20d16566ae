// Runs the jobs of jobs.ts while requests are served. A failed job is logged and runs again when it is next due. Of
// several processes on one PostgreSQL database only the leader runs the leader's jobs.
import { runCheckpoints } from "../domain/audit/checkpoints.ts";
import type { Services } from "../domain/core/context.ts";
import { flushAllCounters } from "../domain/limits/ratelimit.ts";
import { saveSteadyLag } from "../domain/limits/steady-lag.ts";
import { Failure } from "../kernel/errors.ts";
import { errorFields } from "../platform/errors.ts";
import { atMost } from "../platform/timing.ts";
import { jobs, type Job, type JobName } from "./jobs.ts";

const TICK_MS = 1_000;
/** When stopping, for the jobs that run. One that takes longer is repeated after the next start. */
const RUNNING_JOBS_MS = 2_000;

export type Scheduler = {
  /** Resolves when no job is running. */
  idle(): Promise<void>;
  stop(): Promise<void>;
};

/** For a read-only instance. */
export const idleScheduler: Scheduler = { idle: async () => {}, stop: async () => {} };

/** Starts jobs when they are due, each at most once at a time, and keeps track of which ones fail. */
export class JobRunner {
  readonly #services: Services;
  readonly #jobs: readonly Job[];
  readonly #lastStart = new Map<Job, number>();
  readonly #running = new Map<Job, Promise<void>>();
  readonly #rerun = new Set<Job>();
  readonly #timer: NodeJS.Timeout;
  #ticking: Promise<void> | undefined;
  #stopping = false;

  constructor(services: Services, table: readonly Job[]) {
    this.#services = services;
    this.#jobs = table;
    services.worker.leaderSeenAt = performance.now();
    for (const job of table) this.#lastStart.set(job, services.clock.now() - (job.atStart ? job.everyMs : 0));
    this.#timer = setInterval(() => this.#tick(), TICK_MS).unref();
    this.#tick();
  }

  /** Starts a job now. One that is running may have read its work already, so it runs once more afterwards. */
  wake(name: JobName): void {
    const job = this.#jobs.find((each) => each.name === name);
    if (!job || this.#stopping) return;
    if (this.#running.has(job)) this.#rerun.add(job);
    else this.#start(job);
  }

  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.values());
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#timer);
    const finished = Promise.resolve(this.#ticking).then(() => this.idle());
    await atMost(RUNNING_JOBS_MS, finished);
  }

  #tick(): void {
    if (this.#ticking || this.#stopping) return;
    this.#ticking = this.#updateLeadership().then(() => {
      this.#ticking = undefined;
      if (!this.#stopping) this.#startDue();
    });
  }

  async #updateLeadership(): Promise<void> {
    const { store, worker, log } = this.#services;
    let leads = false;
    try {
      leads = await store.tryBecomeLeader();
      worker.leaderSeenAt = performance.now();
    } catch {
      // Whether another process leads is not known: /status reports it if this lasts.
    }
    if (leads !== worker.leads && store.dialect === "postgres")
      log.info(leads ? "this process is the leader" : "this process is no longer the leader");
    worker.leads = leads;
  }

  #startDue(): void {
    const { clock, worker } = this.#services;
    const now = clock.now();
    for (const job of this.#jobs) {
      if (this.#running.has(job) || (job.runsOn === "leader" && !worker.leads)) continue;
      if (now - (this.#lastStart.get(job) ?? 0) >= job.everyMs) this.#start(job);
    }
  }

  #start(job: Job): void {
    this.#lastStart.set(job, this.#services.clock.now());
    const done = this.#run(job).then(() => {
      this.#running.delete(job);
      if (this.#rerun.delete(job) && !this.#stopping) this.#start(job);
    });
    this.#running.set(job, done);
  }

  async #run(job: Job): Promise<void> {
    const { worker, log } = this.#services;
    try {
      await job.run(this.#services);
      worker.failing.delete(job.name);
    } catch (error) {
      if (this.#stopping && error instanceof Failure && error.failure === "stopping") return;
      worker.failing.add(job.name);
      log.error("job failed", { job: job.name, ...errorFields(error) });
    }
  }
}

export function startScheduler(services: Services): Scheduler {
  const runner = new JobRunner(services, jobs);
  services.mail.wake = () => runner.wake("mail");
  runner.wake("mail"); // queued before the last stop
  return {
    idle: () => runner.idle(),
    async stop() {
      await runner.stop();
      const saves: [failure: string, save: () => Promise<unknown>][] = [
        ["last checkpoint failed", () => runCheckpoints(services)],
        ["counters were not saved", () => flushAllCounters(services)],
        ["steady time was not saved", () => saveSteadyLag(services)],
        ["written bytes were not saved", () => services.writtenBytes.flush()],
      ];
      for (const [failure, save] of saves)
        await save().catch((error: unknown) => services.log.error(failure, errorFields(error)));
    },
  };
}
