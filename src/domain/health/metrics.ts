// The metrics of an instance, except those of its HTTP requests. Most are read from memory; those from the database are
// absent while it is unreachable, and keyrack_database_up is 0.
import { FallbackCounter } from "../../ratelimit/fallback.ts";
import { counter, gauge, type Family, type Sample } from "../../kernel/exposition.ts";
import { missingFrom } from "../../kernel/policy/capabilities.ts";
import { NIL_WORKSPACE } from "../../kernel/audit/chain.ts";
import { headOf } from "../../store/queries/audit.ts";
import { countBrokenChains } from "../../store/queries/audit-marks.ts";
import {
  auditTotals,
  countLateNodes,
  countLiveNodes,
  countAllNodes,
  liveNodesOfUsers,
} from "../../store/queries/metrics.ts";
import { journalState } from "../../store/queries/series.ts";
import type { Services } from "../core/context.ts";
import { isSetupOpen } from "../workspaces/setup-tokens.ts";
import { DEGRADED_MS } from "../nodes/nodes.ts";
import { liveSince } from "../nodes/presence.ts";
import { meterLagMs } from "../metering/status.ts";
import { mailState } from "../mail/outbox.ts";
import { backupState } from "./status.ts";

export async function collectMetrics(services: Services): Promise<Family[]> {
  const stored = await storedFamilies(services).catch(() => []);
  const up = gauge("keyrack_database_up", "1 when the database responded to this scrape.", stored.length > 0 ? 1 : 0);
  return [
    ...writeFamilies(services),
    ...limiterFamilies(services),
    ...cacheFamilies(services),
    ...services.shares.families(),
    ...workerFamilies(services),
    ...quotaFamilies(services),
    ...seriesFamilies(services),
    counter("keyrack_log_lines_dropped", "Log lines dropped because their reader was slow.", services.log.dropped ?? 0),
    ...(await backupFamilies(services)),
    up,
    ...stored,
  ];
}

function writeFamilies({ store, counts }: Services): Family[] {
  const mutations = Object.entries(counts.mutations).map(([action, value]) => ({ labels: { action }, value }));
  const lookups = Object.entries(counts.lookups).map(([outcome, value]) => ({ labels: { outcome }, value }));
  return [
    counter("keyrack_key_lookups", "Lookups of full keys, by outcome.", lookups),
    counter("keyrack_mutations", "Changes committed and audited, by action.", mutations),
    counter("keyrack_commits", "Durable commits.", store.stats.commits),
    {
      name: "keyrack_commit_size",
      type: "histogram",
      help: "Jobs per commit.",
      samples: store.stats.sizes.samples(),
    },
    gauge("keyrack_write_backlog", "Writes waiting for a commit.", store.backlog),
  ];
}

function limiterFamilies({ counters }: Services): Family[] {
  const { configured, ready } = counters.redisState();
  const memory = counters.memory.metrics();
  const fallback = counters.counter instanceof FallbackCounter ? counters.counter.metrics() : undefined;
  const active = configured && ready ? "redis" : "memory";
  const stores = ["redis", "memory"].map((store) => ({ labels: { store }, value: store === active ? 1 : 0 }));
  return [
    gauge("keyrack_ratelimit_store", "1 for the counter store in use.", stores),
    gauge("keyrack_redis_up", "1 when Redis is configured and responds.", configured && ready ? 1 : 0),
    counter(
      "keyrack_ratelimit_fallbacks",
      "Checks served by the in-process counters although Redis is configured.",
      fallback?.fallbacks_total ?? 0,
    ),
    counter(
      "keyrack_redis_circuit_opened",
      "Times the circuit breaker for Redis opened.",
      fallback?.circuit_opened_total ?? 0,
    ),
    gauge("keyrack_ratelimit_counters", "Counters in this process.", memory.counters),
    gauge(
      "keyrack_ratelimit_overflow_counters",
      "Counters shared because a cap was reached.",
      memory.overflow_counters,
    ),
    counter(
      "keyrack_ratelimit_overflowed",
      "Lookups that used a shared counter, in this process or on Redis.",
      memory.overflowed_total + (fallback?.overflowed_total ?? 0),
    ),
    counter("keyrack_ratelimit_refused", "Lookups rejected because no counter was free.", memory.refused_total),
    counter(
      "keyrack_ratelimit_evicted",
      "Counters of the largest owner that were merged into a shared counter to make room.",
      memory.evicted_total,
    ),
  ];
}

function cacheFamilies({ credentialCache, feed, nodes }: Services): Family[] {
  const caches = { secret_keys: credentialCache.reads, policy_pages: feed.pages.reads, policy_heads: feed.reads };
  const of = (name: "hits" | "misses"): Sample[] =>
    Object.entries(caches).map(([cache, reads]) => ({ labels: { cache }, value: reads[name] }));
  return [
    counter("keyrack_cache_hits", "Cache hits, by cache.", of("hits")),
    counter("keyrack_cache_misses", "Cache misses, by cache.", of("misses")),
    gauge("keyrack_policy_pages_bytes", "Bytes of cached policy pages.", feed.pages.bytes),
    gauge("keyrack_policy_polls_waiting", "Long polls waiting for a change.", feed.waiting),
    counter("keyrack_policy_head_reads", "Statements that read policy versions for polls.", feed.headReads),
    counter(
      "keyrack_notices_missed",
      "Policy versions of other processes found by polling, without a notification.",
      feed.noticesMissed,
    ),
    counter(
      "keyrack_node_reports_dropped",
      "Reports of nodes that were dropped because too many were waiting; the nodes send them again.",
      nodes.dropped,
    ),
  ];
}

function workerFamilies({ worker }: Services): Family[] {
  return [
    gauge("keyrack_leader", "1 when this process is the leader and runs the scheduled jobs.", worker.leads ? 1 : 0),
    gauge(
      "keyrack_key_policy_blocked",
      "Projects whose idle keys cannot be revoked yet, because telemetry is missing or too recent.",
      worker.keyPoliciesBlocked ?? 0,
    ),
    gauge("keyrack_search_backlog", "Changed keys not yet in the search index.", worker.searchBacklog ?? 0),
    gauge("keyrack_jobs_failing", "Jobs whose last run failed.", worker.failing.size),
  ];
}

function seriesFamilies({ counts: { series }, meter }: Services): Family[] {
  const samples = (label: string, counts: Readonly<Record<string, number>>): Sample[] =>
    Object.entries(counts).map(([name, value]) => ({ labels: { [label]: name }, value }));
  return [
    counter(
      "keyrack_series_overflow",
      "Names of usage series that were counted together because a cap was reached, by kind.",
      samples("kind", series.overflow),
    ),
    counter(
      "keyrack_ingest_ignored",
      "Ignored telemetry fields: optional and malformed, by field.",
      samples("field", series.ignored),
    ),
    counter("keyrack_meter_refused", "Events that the metering system refused.", meter.refused),
  ];
}

function quotaFamilies({ quotas: { metrics } }: Services): Family[] {
  const { denied, ...blocks } = metrics;
  const results = Object.entries(blocks).map(([result, value]) => ({ labels: { result }, value }));
  return [
    counter("keyrack_quota_denied", "Requests refused by a quota.", denied),
    counter(
      "keyrack_quota_blocks",
      "Blocks of quota units by result: taken, none left (empty), given back (returned), or failed.",
      results,
    ),
  ];
}

async function backupFamilies(services: Services): Promise<Family[]> {
  const { lastSuccessAt = null, failing = false, restoreTest } = (await backupState(services)) ?? {};
  const { backup_every, restore_test_every } = services.settings;
  const now = services.clock.now();
  const age = (at: number | null | undefined): readonly Sample[] =>
    at === null || at === undefined ? [] : [{ value: (now - at) / 1_000 }];
  const passed = restoreTest?.pass === null || restoreTest === undefined ? [] : [{ value: restoreTest.pass ? 1 : 0 }];
  return [
    gauge(
      "keyrack_backup_age_seconds",
      "Seconds since the last successful backup; absent before the first.",
      age(lastSuccessAt),
    ),
    gauge(
      "keyrack_backup_interval_seconds",
      "Seconds between scheduled backups; absent when none are scheduled.",
      backup_every === null ? [] : [{ value: backup_every / 1_000 }],
    ),
    gauge(
      "keyrack_backup_failing",
      "1 when the last backup or its hook failed, or a restore test could not run; absent without backups.",
      backup_every === null && lastSuccessAt === null ? [] : [{ value: failing ? 1 : 0 }],
    ),
    gauge("keyrack_restore_test_age_seconds", "Seconds since the last restore test.", age(restoreTest?.lastRunAt)),
    gauge(
      "keyrack_restore_test_interval_seconds",
      "Seconds between scheduled restore tests; absent when none are scheduled.",
      restore_test_every === null ? [] : [{ value: restore_test_every / 1_000 }],
    ),
    gauge("keyrack_restore_test_passed", "1 when the last restore test passed.", passed),
  ];
}

/** As GET /v1/nodes?view=fleet counts them, over all workspaces. */
async function nodeCounts({ store, clock, settings }: Services, seenAfter: number) {
  const [now, lateAfter] = [clock.now(), settings.node_late_after];
  const [all, live, late] = await Promise.all([
    countAllNodes.first(store.read, { degradedAfter: now - DEGRADED_MS }),
    countLiveNodes.count(store.read, { seenAfter }),
    lateAfter === null ? 0 : countLateNodes.count(store.read, { seenAfter, madeBefore: now - lateAfter }),
  ]);
  return { live, late, degraded: all?.degraded ?? 0, silent: (all?.total ?? 0) - live };
}

const inStates = (counts: Record<string, number>): Sample[] =>
  Object.entries(counts).map(([state, value]) => ({ labels: { state }, value }));

async function storedFamilies(services: Services): Promise<Family[]> {
  const { store, clock } = services;
  const seenAfter = await liveSince(services);
  const [mail, nodes, capable, audit, broken, head, setupOpen, journal, meterLag] = await Promise.all([
    mailState(services),
    nodeCounts(services, seenAfter),
    liveNodesOfUsers.all(store.read, { seenAfter }),
    auditTotals.first(store.read, {}),
    countBrokenChains.count(store.read, {}),
    headOf.first(store.read, { workspace_id: NIL_WORKSPACE }),
    isSetupOpen(services),
    journalState.first(store.read, {}),
    meterLagMs(services),
  ]);
  const lacking = capable.reduce(
    (sum, { caps, features, n }) => sum + (missingFrom(caps, features).length > 0 ? n : 0),
    0,
  );
  const lagMs = journal?.oldest_at ? Math.max(0, clock.now() - journal.oldest_at) : 0;
  return [
    gauge("keyrack_outbox_queued", "Messages waiting to be sent.", mail.queued),
    gauge("keyrack_outbox_dead", "Messages that became undeliverable within the last day.", mail.dead),
    gauge("keyrack_setup_open", "1 while the server has no owner and accepts setup links.", setupOpen ? 1 : 0),
    gauge("keyrack_series_lag_seconds", "Age of the oldest batch not yet in usage series.", lagMs / 1_000),
    gauge("keyrack_series_journal_rows", "Journal rows not yet in usage series.", journal?.rows ?? 0),
    gauge("keyrack_meter_lag_seconds", "How long the oldest hour not pushed yet has been overdue.", meterLag / 1_000),
    gauge("keyrack_nodes_live", "Nodes seen recently.", nodes.live),
    gauge("keyrack_nodes", "Nodes by state; a node may be in several.", inStates(nodes)),
    gauge("keyrack_nodes_missing_caps", "Live nodes that lack a capability which their project uses.", lacking),
    gauge("keyrack_audit_chains", "Audit chains: one per workspace, and the deployment's.", audit?.chains ?? 0),
    gauge("keyrack_audit_chains_broken", "Audit chains that failed their last verification.", broken),
    gauge("keyrack_audit_rows", "Audit rows in all chains.", audit?.rows ?? 0),
    gauge("keyrack_audit_head_seq", "Sequence number of the newest row of the deployment's chain.", head?.seq ?? 0),
  ];
}
