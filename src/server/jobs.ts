// Every scheduled job. To add one, add a line to `jobs`.
import { runDueBackup, runDueRestoreTest } from "../backup/schedule.ts";
import { verifyDueChains } from "../domain/audit/chain-verification.ts";
import { runCheckpoints } from "../domain/audit/checkpoints.ts";
import { reapLogins } from "../domain/auth/retention.ts";
import type { Services } from "../domain/core/context.ts";
import { fillKeyCreators } from "../domain/keys/creators.ts";
import { runKeyPolicies } from "../domain/key-policy/job.ts";
import { maintainEmbedKeys } from "../domain/embed/signing-keys.ts";
import { runDueQuickCheck } from "../domain/health/quick-check.ts";
import { reapIdempotency, recountIdempotency } from "../domain/idempotency/claims.ts";
import { reapReplays } from "../domain/idempotency/replays.ts";
import { flushCounters, reapSavedCounters } from "../domain/limits/ratelimit.ts";
import { saveSteadyLag } from "../domain/limits/steady-lag.ts";
import { pushUsage } from "../domain/metering/push.ts";
import { reapBalances, reapGrants } from "../domain/quotas/retention.ts";
import { deliverDue, reapOutbox } from "../domain/mail/outbox.ts";
import { reapDeltaLog, reapSilentNodes } from "../domain/policy/retention.ts";
import { indexChanges } from "../domain/search/search-index.ts";
import { runCascades } from "../domain/workspaces/cascades.ts";
import { reapIngest } from "../domain/ingest/ingest.ts";
import { reapKeyNetworks } from "../domain/usage/key-networks.ts";
import { reapLastUses } from "../domain/usage/last-use.ts";
import { foldJournal } from "../domain/series/fold.ts";
import { reapSeries } from "../domain/series/retention.ts";
import { reapUsage } from "../domain/usage/usage.ts";
import { PRESENCE_EVERY_MS, recordPresence } from "../domain/nodes/presence.ts";
import { HOUR_MS, MINUTE_MS, SECOND_MS } from "../kernel/durations.ts";

export type Job = {
  /** In the log, and in the set of failing jobs. */
  readonly name: string;
  readonly everyMs: number;
  /** "leader": one process of the deployment. "every process": work on the process's own memory. */
  readonly runsOn: "leader" | "every process";
  /** Due at once after a start, else after its first interval. */
  readonly atStart?: boolean;
  /** Must be safe to run twice at the same time: for a moment there can be two leaders. */
  run(services: Services): Promise<unknown>;
};

/** A chain that has grown by this many rows gets a checkpoint before the minute is over. */
const CHECKPOINT_ROWS = 1_000;

const checkpointBusyChains = (services: Services) => runCheckpoints(services, { rows: CHECKPOINT_ROWS });

const checkpointWal = ({ store }: Services) => store.checkpointIfIdle();

/** A build that was interrupted, or that another process had no time to finish, leaves reads without their index. */
const buildIndexes = async ({ store, shutdown, log, settings }: Services) => {
  if (settings.migrate === "refuse") return; // the server's role may not own the tables; a start warns
  const built = await store.buildIndexes(shutdown.signal);
  if (built.length > 0) log.info("missing indexes built", { indexes: built.join(" ") });
};

export const jobs = [
  { name: "mail", everyMs: 5 * SECOND_MS, runsOn: "leader", run: deliverDue },
  { name: "checkpoints", everyMs: MINUTE_MS, runsOn: "leader", run: (services) => runCheckpoints(services) },
  { name: "checkpoints of busy chains", everyMs: 5 * SECOND_MS, runsOn: "leader", run: checkpointBusyChains },
  { name: "audit verification", everyMs: MINUTE_MS, runsOn: "leader", run: verifyDueChains },
  { name: "signing keys", everyMs: MINUTE_MS, runsOn: "leader", run: maintainEmbedKeys },
  { name: "idempotency replays", everyMs: MINUTE_MS, runsOn: "leader", run: reapReplays },
  { name: "idempotency records", everyMs: MINUTE_MS, runsOn: "leader", run: reapIdempotency },
  { name: "idempotency counts", everyMs: HOUR_MS, runsOn: "leader", atStart: true, run: recountIdempotency },
  { name: "silent nodes", everyMs: 10 * MINUTE_MS, runsOn: "leader", run: reapSilentNodes },
  {
    name: "presence",
    everyMs: PRESENCE_EVERY_MS,
    runsOn: "every process",
    atStart: true,
    run: recordPresence,
  },
  { name: "delta log", everyMs: HOUR_MS, runsOn: "leader", run: reapDeltaLog },
  { name: "rate counters", everyMs: 5 * SECOND_MS, runsOn: "every process", run: flushCounters },
  { name: "steady time", everyMs: 5 * SECOND_MS, runsOn: "every process", run: saveSteadyLag },
  { name: "quota blocks", everyMs: SECOND_MS, runsOn: "every process", run: (s) => s.quotas.sweep() },
  { name: "old quota balances", everyMs: HOUR_MS, runsOn: "leader", run: reapBalances },
  { name: "old quota grants", everyMs: HOUR_MS, runsOn: "leader", run: reapGrants },
  { name: "written bytes", everyMs: 5 * SECOND_MS, runsOn: "every process", run: (s) => s.writtenBytes.flush() },
  { name: "old written bytes", everyMs: HOUR_MS, runsOn: "leader", run: (s) => s.writtenBytes.reap() },
  { name: "expired rate counters", everyMs: MINUTE_MS, runsOn: "leader", run: reapSavedCounters },
  { name: "ingest receipts", everyMs: MINUTE_MS, runsOn: "leader", run: reapIngest },
  { name: "daily usage", everyMs: HOUR_MS, runsOn: "leader", run: reapUsage },
  { name: "networks of keys", everyMs: HOUR_MS, runsOn: "leader", run: reapKeyNetworks },
  { name: "last uses of keys", everyMs: HOUR_MS, runsOn: "leader", run: reapLastUses },
  { name: "usage series", everyMs: 2 * SECOND_MS, runsOn: "leader", run: foldJournal },
  { name: "old usage series", everyMs: HOUR_MS, runsOn: "leader", run: reapSeries },
  {
    name: "metering",
    everyMs: 10 * SECOND_MS,
    runsOn: "leader",
    atStart: true,
    run: (services) => pushUsage(services),
  },
  { name: "search index", everyMs: 10 * SECOND_MS, runsOn: "leader", run: indexChanges },
  { name: "backup", everyMs: MINUTE_MS, runsOn: "leader", run: runDueBackup },
  { name: "restore test", everyMs: MINUTE_MS, runsOn: "leader", run: runDueRestoreTest },
  { name: "deferred revocations", everyMs: SECOND_MS, runsOn: "leader", run: runCascades },
  { name: "secret key creators", everyMs: MINUTE_MS, runsOn: "leader", run: fillKeyCreators },
  { name: "key policies", everyMs: SECOND_MS, runsOn: "leader", run: runKeyPolicies },
  { name: "old mail", everyMs: HOUR_MS, runsOn: "leader", run: reapOutbox },
  { name: "old sessions and tokens", everyMs: HOUR_MS, runsOn: "leader", run: reapLogins },
  { name: "missing indexes", everyMs: 10 * MINUTE_MS, runsOn: "leader", atStart: true, run: buildIndexes },
  { name: "quick check", everyMs: HOUR_MS, runsOn: "leader", run: runDueQuickCheck },
  { name: "WAL checkpoint", everyMs: 10 * SECOND_MS, runsOn: "leader", run: checkpointWal },
] as const satisfies readonly Job[];

export type JobName = (typeof jobs)[number]["name"];
