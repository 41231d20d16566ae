// Rate-limit checks and leases. The counters need no database read; this file adds the live/test boundary, and saves
// in-process counters with windows of a minute and more, so that a restart does not reset quotas.
import type { CheckRequest, LeaseRequest, Verdict } from "../../ratelimit/counter.ts";
import { countersAfter, reapCounters, saveCounters } from "../../store/queries/rate-counters.ts";
import type { SecretKeyActor } from "../core/actor.ts";
import { requireEnvAccess, requireProjectAccess } from "../core/env-access.ts";
import type { Ctx, Services } from "../core/context.ts";
import { record } from "../core/record.ts";

const FLUSH_ROWS_MAX = 5_000;

type Machine = Ctx<SecretKeyActor>;

/** Returns without a promise when the counters are in process. bench: ratelimit/check */
export function checkLimits({ services, actor }: Machine, input: Omit<CheckRequest, "workspace_id">) {
  requireEnvAccess(actor, input.env);
  requireProjectAccess(actor, input.project_id);
  const { project_id, env, key_id, tenant_id, cost, limits } = input; // a spread costs more than the check
  const { workspace_id } = actor;
  const verdict = services.counters.counter.check({ workspace_id, project_id, env, key_id, tenant_id, cost, limits });
  return verdict instanceof Promise ? verdict.then(resultOf) : resultOf(verdict);
}

export type LimitsResult = { object: "ratelimit_result" } & Verdict;

function resultOf(verdict: Verdict): LimitsResult {
  const { allowed, limited_policy, retry_after_seconds, store, policies } = verdict;
  return { object: "ratelimit_result", allowed, limited_policy, retry_after_seconds, store, policies };
}

export async function leaseLimits({ services, actor }: Machine, input: Omit<LeaseRequest, "workspace_id">) {
  requireEnvAccess(actor, input.env);
  requireProjectAccess(actor, input.project_id);
  const lease = await services.counters.counter.lease({ workspace_id: actor.workspace_id, ...input });
  return { object: "ratelimit_lease" as const, ...lease };
}

export async function returnLease({ services, actor }: Machine, input: { lease_id: string; unused: number }) {
  const returned = await services.counters.counter.returnLease(actor.workspace_id, input.lease_id, input.unused);
  return { object: "ratelimit_return" as const, returned };
}

/** Saves up to 5,000 changed counters; returns how many. */
export async function flushCounters(services: Pick<Services, "store" | "counters">): Promise<number> {
  const { memory } = services.counters;
  const rows = memory.dirtyRows(FLUSH_ROWS_MAX);
  if (rows.length === 0) return 0;
  try {
    await record(services, (tx) => saveCounters(tx, rows));
  } catch (error) {
    memory.requeue(rows);
    throw error;
  }
  return rows.length;
}

/** Saves all changed counters, at shutdown. */
export async function flushAllCounters(services: Pick<Services, "store" | "counters">): Promise<void> {
  while ((await flushCounters(services)) > 0);
}

/** Loads what an earlier process saved. Call once, before the first check. */
export async function loadCounters({ store, clock, counters }: Pick<Services, "store" | "clock" | "counters">) {
  let key = "";
  for (;;) {
    const rows = await countersAfter.all(store.read, { key, now: clock.now(), limit: FLUSH_ROWS_MAX });
    counters.memory.load(rows);
    if (rows.length < FLUSH_ROWS_MAX) return;
    key = rows.at(-1)?.key ?? "";
  }
}

export function reapSavedCounters(services: Services): Promise<number> {
  return record(services, (tx) => reapCounters.run(tx, { now: services.clock.now() }));
}
