// What /metrics tells of an instance beside its requests. Most of it is read from memory; what stands in the database
// is left out while that is away, and keyrack_database_up says so.
import { FallbackCounter } from "../../ratelimit/fallback.ts";
import { counter, gauge, type Family, type Sample } from "../../kernel/exposition.ts";
import { NIL_WORKSPACE } from "../../kernel/audit/chain.ts";
import { headOf } from "../../store/queries/audit.ts";
import { auditTotals, countLiveNodes } from "../../store/queries/metrics.ts";
import type { Services } from "../core/context.ts";
import { mailState } from "../mail/outbox.ts";
import { backupState } from "./status.ts";

export async function collectMetrics(services: Services): Promise<Family[]> {
  const stored = await storedFamilies(services).catch(() => []);
  const up = gauge("keyrack_database_up", "1 when the database answered this scrape.", stored.length > 0 ? 1 : 0);
  return [
    ...writeFamilies(services),
    ...limiterFamilies(services),
    ...cacheFamilies(services),
    ...workerFamilies(services),
    ...(await backupFamilies(services)),
    up,
    ...stored,
  ];
}

function writeFamilies({ store, mutationCounts }: Services): Family[] {
  const mutations = Object.entries(mutationCounts).map(([action, value]) => ({ labels: { action }, value }));
  return [
    counter("keyrack_mutations", "Changes committed and audited, by action.", mutations),
    counter("keyrack_commits", "Durable commits.", store.stats.commits),
    {
      name: "keyrack_commit_size",
      type: "histogram",
      help: "Jobs that shared one commit.",
      samples: store.stats.sizes.samples(),
    },
    gauge("keyrack_write_backlog", "Writes that wait for a commit.", store.backlog),
  ];
}

function limiterFamilies({ counters }: Services): Family[] {
  const { configured, ready } = counters.redisState();
  const memory = counters.memory.metrics();
  const fallback = counters.counter instanceof FallbackCounter ? counters.counter.metrics() : undefined;
  const active = configured && ready ? "redis" : "memory";
  const stores = ["redis", "memory"].map((store) => ({ labels: { store }, value: store === active ? 1 : 0 }));
  return [
    gauge("keyrack_ratelimit_store", "1 for the store that counts now.", stores),
    gauge("keyrack_redis_up", "1 when Redis is configured and answers.", configured && ready ? 1 : 0),
    counter(
      "keyrack_ratelimit_fallbacks",
      "Checks answered without Redis though it is configured.",
      fallback?.fallbacks_total ?? 0,
    ),
    counter(
      "keyrack_redis_circuit_opened",
      "Times Redis was given up for a while.",
      fallback?.circuit_opened_total ?? 0,
    ),
    gauge("keyrack_ratelimit_counters", "Counters held in this process.", memory.counters),
    gauge("keyrack_ratelimit_overflow_counters", "Counters shared at a cap.", memory.overflow_counters),
    counter("keyrack_ratelimit_overflowed", "Lookups that ended on a shared counter.", memory.overflowed_total),
    counter("keyrack_ratelimit_refused", "Lookups that found no counter at all.", memory.refused_total),
  ];
}

function cacheFamilies({ credentialCache, feed }: Services): Family[] {
  const caches = { secret_keys: credentialCache.reads, policy_pages: feed.pages.reads, policy_heads: feed.reads };
  const of = (name: "hits" | "misses"): Sample[] =>
    Object.entries(caches).map(([cache, reads]) => ({ labels: { cache }, value: reads[name] }));
  return [
    counter("keyrack_cache_hits", "Answers out of memory, by cache.", of("hits")),
    counter("keyrack_cache_misses", "Answers that had to be looked up or built, by cache.", of("misses")),
    gauge("keyrack_policy_pages_bytes", "Bytes of policy answers kept ready.", feed.pages.bytes),
    gauge("keyrack_policy_polls_waiting", "Long polls that wait for a change.", feed.waiting),
  ];
}

function workerFamilies({ worker }: Services): Family[] {
  return [
    gauge("keyrack_leader", "1 when this process runs the jobs.", worker.leads ? 1 : 0),
    gauge("keyrack_jobs_failing", "Jobs whose last run failed.", worker.failing.size),
  ];
}

async function backupFamilies(services: Services): Promise<Family[]> {
  const { lastSuccessAt = null, restoreTest } = (await backupState(services)) ?? {};
  const now = services.clock.now();
  const age = (at: number | null | undefined): readonly Sample[] =>
    at === null || at === undefined ? [] : [{ value: (now - at) / 1_000 }];
  const passed = restoreTest?.pass === null || restoreTest === undefined ? [] : [{ value: restoreTest.pass ? 1 : 0 }];
  return [
    gauge("keyrack_backup_age_seconds", "Since the last good backup; absent before the first.", age(lastSuccessAt)),
    gauge("keyrack_restore_test_age_seconds", "Since a backup was restored for a test.", age(restoreTest?.lastRunAt)),
    gauge("keyrack_restore_test_passed", "1 when that test passed.", passed),
  ];
}

async function storedFamilies(services: Services): Promise<Family[]> {
  const { store, clock, settings } = services;
  const [mail, nodes, audit, head] = await Promise.all([
    mailState(services),
    countLiveNodes.first(store.read, { seenAfter: clock.now() - settings.node_live_ms }),
    auditTotals.first(store.read, {}),
    headOf.first(store.read, { workspace_id: NIL_WORKSPACE }),
  ]);
  return [
    gauge("keyrack_outbox_queued", "Messages that wait to be sent.", mail.queued),
    gauge("keyrack_outbox_dead", "Messages of the last day that could not be delivered.", mail.dead),
    gauge("keyrack_nodes_live", "Library nodes seen lately.", nodes?.n ?? 0),
    gauge("keyrack_audit_chains", "Audit chains: one a workspace, and the deployment's.", audit?.chains ?? 0),
    gauge("keyrack_audit_rows", "Audit rows in all chains.", audit?.rows ?? 0),
    gauge("keyrack_audit_head_seq", "The newest row of the deployment's chain.", head?.seq ?? 0),
  ];
}
