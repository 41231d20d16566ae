// What runs beside requests: checkpoints, mail, key rotation and reaping. One loop; a job that fails is logged and tried again.
import { runCheckpoints } from "./domain/checkpoints.ts";
import type { Rack } from "./domain/context.ts";
import { maintainEmbedKeys } from "./domain/embed-signing-keys.ts";
import { CONSECUTIVE_MAX } from "./domain/login-guard.ts";
import { record } from "./domain/mutate.ts";
import { reapDeltaLog, reapSilentNodes } from "./domain/retention.ts";
import { deliverDue, reapOutbox } from "./domain/outbox.ts";
import { reapIdempotency } from "./domain/idempotency.ts";
import { reapIngest } from "./domain/ingest.ts";
import { flushAllCounters, flushCounters, reapSavedCounters } from "./domain/ratelimit.ts";
import { reapUsage } from "./domain/usage.ts";
import { reapKeptAnswers } from "./store/kept-answers.ts";
import { reapLoginFailures, reapLoginNetworks } from "./store/logins.ts";
import { reapTokens } from "./store/one-time-tokens.ts";
import { reapSessions } from "./store/sessions.ts";

type Job = { name: string; everyMs: number; run: () => Promise<unknown> };

const TICK_MS = 1_000;
const MAIL_EVERY_MS = 5_000;
const FLUSH_EVERY_MS = 5_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const CHECKPOINT_ROWS = 1_000;

export type Jobs = {
  /** Resolves when nothing is running. */
  idle(): Promise<void>;
  stop(): Promise<void>;
};

/** What people leave behind and nobody needs any more. */
async function reapPeople(rack: Rack): Promise<void> {
  const now = rack.clock.now();
  await record(rack, async (tx) => {
    await reapSessions.run(tx, { before: now - 30 * DAY_MS });
    await reapTokens.run(tx, { before: now - 7 * DAY_MS });
    await reapLoginNetworks.run(tx, { before: now - 30 * DAY_MS });
    await reapLoginFailures.run(tx, { before: now - 90 * DAY_MS, max: CONSECUTIVE_MAX });
  });
}

function jobsOf(rack: Rack): { mail: Job; others: Job[] } {
  return {
    mail: { name: "mail", everyMs: MAIL_EVERY_MS, run: () => deliverDue(rack) },
    others: [
      { name: "checkpoints", everyMs: MINUTE_MS, run: () => runCheckpoints(rack) },
      {
        name: "checkpoints of busy chains",
        everyMs: 5_000,
        run: () => runCheckpoints(rack, { rows: CHECKPOINT_ROWS }),
      },
      { name: "signing keys", everyMs: MINUTE_MS, run: () => maintainEmbedKeys(rack) },
      {
        name: "kept answers",
        everyMs: MINUTE_MS,
        run: () => record(rack, (tx) => reapKeptAnswers.run(tx, { now: rack.clock.now() })),
      },
      { name: "silent nodes", everyMs: 10 * MINUTE_MS, run: () => reapSilentNodes(rack) },
      { name: "delta log", everyMs: HOUR_MS, run: () => reapDeltaLog(rack) },
      { name: "idempotency records", everyMs: MINUTE_MS, run: () => reapIdempotency(rack) },
      { name: "rate counters", everyMs: FLUSH_EVERY_MS, run: () => flushCounters(rack) },
      { name: "lapsed rate counters", everyMs: MINUTE_MS, run: () => reapSavedCounters(rack) },
      { name: "ingest receipts", everyMs: MINUTE_MS, run: () => reapIngest(rack) },
      { name: "daily usage", everyMs: HOUR_MS, run: () => reapUsage(rack) },
      { name: "old mail", everyMs: HOUR_MS, run: () => reapOutbox(rack) },
      { name: "old sessions", everyMs: HOUR_MS, run: () => reapPeople(rack) },
    ],
  };
}

export function startJobs(rack: Rack): Jobs {
  const last = new Map<string, number>();
  const running = new Set<Promise<unknown>>();
  const { mail, others } = jobsOf(rack);
  const jobs = [mail, ...others];
  const busy = new Set<string>();
  const again = new Set<Job>();
  let stopping = false;
  const start = (job: Job): void => {
    last.set(job.name, rack.clock.now());
    busy.add(job.name);
    const done = job
      .run()
      .catch((error) => rack.log.error("job failed", { job: job.name, error: String(error) }))
      .finally(() => {
        busy.delete(job.name);
        running.delete(done);
        if (again.delete(job) && !stopping) start(job);
      });
    running.add(done);
  };
  /** Starts a job now; one that is running may have looked already, so it runs once more. */
  const wake = (job: Job): void => {
    if (busy.has(job.name)) again.add(job);
    else if (!stopping) start(job);
  };
  rack.mail.wake = () => wake(mail);
  for (const { name } of jobs) last.set(name, rack.clock.now());
  const timer = setInterval(() => {
    const now = rack.clock.now();
    for (const job of jobs) {
      if (busy.has(job.name)) continue;
      if (now - (last.get(job.name) ?? 0) >= job.everyMs) start(job);
    }
  }, TICK_MS);
  timer.unref();
  wake(mail); // what an earlier run left behind
  return {
    async idle() {
      while (running.size > 0) await Promise.allSettled(running);
    },
    async stop() {
      stopping = true;
      clearInterval(timer);
      await Promise.allSettled(running);
      await runCheckpoints(rack).catch((error) => rack.log.error("last checkpoint failed", { error: String(error) }));
      await flushAllCounters(rack).catch((error) =>
        rack.log.error("counters were not saved", { error: String(error) }),
      );
    },
  };
}
