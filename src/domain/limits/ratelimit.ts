// Rate-limit checks and leases. The counters need no database read; this file adds the live/test boundary, and saves
// in-process counters with windows of a minute and more, so that a restart does not reset rate limits.
import { DAY_MS, HOUR_MS } from "../../kernel/durations.ts";
import type { CheckRequest, Lease, LeaseRequest, Verdict } from "../../ratelimit/counter.ts";
import { countersAfter, reapCounters, saveCounters } from "../../store/queries/rate-counters.ts";
import { workspaceById } from "../../store/queries/workspaces.ts";
import { requireEnvAccess, requireProjectAccess } from "../core/env-access.ts";
import type { Machine, Services } from "../core/context.ts";
import { reap, record } from "../core/record.ts";
import { returnToQuotas } from "../quotas/lease-returns.ts";
import { checkWithQuotas, leaseWithQuotas } from "../quotas/charging.ts";
import type { WithQuotas } from "../quotas/results.ts";
import type { Owed } from "../quotas/takes.ts";

/** Rows saved in one pass. */
const FLUSH_ROWS_MAX = 5_000;
/** Rows that every cell may save in one pass, however many other cells have. */
const FLUSH_ROWS_PER_CELL = 500;
/** Rows per transaction: more would block the event loop for tens of milliseconds. */
const TRANSACTION_ROWS = 500;
/** Rows per transaction at shutdown, where no other work waits and every transaction is synced. */
const SHUTDOWN_TRANSACTION_ROWS = 5_000;
const SHUTDOWN_MS = 3_000;
const SHUTDOWN_WINDOWS_MS = [DAY_MS, HOUR_MS, 0];

/** `owed`: units that a node admitted while it could not ask, charged once for each `owed_id`. */
type QuotaInput = { quotas?: boolean | undefined; owed?: number | undefined; owed_id?: string | null | undefined };
type CheckInput = Omit<CheckRequest, "workspace_id" | "account_id"> & QuotaInput;
type LeaseInput = Omit<LeaseRequest, "workspace_id" | "account_id"> & QuotaInput;

/**
 * Returns without a promise when the counters are in process, so that all of the request counts in the turn of its
 * owner (fairness/turns.ts), in a flood of checks too.
 */
export function checkLimits(ctx: Machine, input: CheckInput) {
  const { services, actor } = ctx;
  requireEnvAccess(actor, input.env);
  requireProjectAccess(actor, input.project_id);
  const { project_id, env, key_id, tenant_id, cost, limits } = input; // a spread costs more than the check
  const { workspace_id, account_id } = actor;
  const subject = { workspace_id, account_id, project_id, env, key_id, tenant_id, cost, limits };
  if (input.quotas) {
    const charged = checkWithQuotas(ctx, subject, owedOf(input));
    return charged instanceof Promise ? charged.then(resultWithQuotas) : resultWithQuotas(charged);
  }
  const verdict = services.counters.counter.check(subject);
  return verdict instanceof Promise ? verdict.then(resultOf) : resultOf(verdict);
}

function owedOf({ owed = 0, owed_id = null }: QuotaInput): Owed {
  return { units: owed, id: owed_id };
}

export type LimitsResult = { object: "ratelimit_result" } & Verdict;

function resultOf(verdict: Verdict): LimitsResult {
  const { allowed, limited_policy, retry_after_seconds, store, policies } = verdict;
  return { object: "ratelimit_result", allowed, limited_policy, retry_after_seconds, store, policies };
}

function resultWithQuotas(verdict: WithQuotas<Verdict>): WithQuotas<LimitsResult> {
  return { ...resultOf(verdict), limited_quota: verdict.limited_quota, quotas: verdict.quotas };
}

/** Returns without a promise in the cases in which `checkLimits` does. */
export function leaseLimits(ctx: Machine, { quotas, owed, owed_id, ...input }: LeaseInput) {
  const { services, actor } = ctx;
  requireEnvAccess(actor, input.env);
  requireProjectAccess(actor, input.project_id);
  const { workspace_id, account_id } = actor;
  const request = { workspace_id, account_id, ...input };
  const lease = quotas
    ? leaseWithQuotas(ctx, request, owedOf({ owed, owed_id }))
    : services.counters.counter.lease(request);
  return lease instanceof Promise ? lease.then(resultOfLease) : resultOfLease(lease);
}

function resultOfLease(lease: Lease & Partial<WithQuotas<Lease>>) {
  return { object: "ratelimit_lease" as const, ...lease };
}

/** Quotas accept returned units for longer than rate limits do, so more may be returned to one than to the other. */
export async function returnLease(ctx: Machine, { lease_id, unused }: { lease_id: string; unused: number }) {
  const { workspace_id } = ctx.actor;
  const [toQuotas, toRules] = await Promise.all([
    returnToQuotas(ctx, lease_id, unused),
    ctx.services.counters.counter.returnLease(workspace_id, lease_id, unused),
  ]);
  return { object: "ratelimit_return" as const, returned: Math.max(toQuotas, toRules) };
}

type Saving = Pick<Services, "store" | "counters">;

/**
 * Saves changed counters; returns how many. Every cell gets its turn: what it saves at most does not depend on others.
 */
export async function flushCounters(services: Saving): Promise<number> {
  const goal = Math.max(FLUSH_ROWS_MAX, FLUSH_ROWS_PER_CELL * services.counters.memory.dirtyCells);
  let saved = 0;
  for (;;) {
    const count = await flushBatch(services, TRANSACTION_ROWS);
    saved += count;
    if (count === 0 || saved >= goal) return saved;
  }
}

async function flushBatch(services: Saving, max: number, minWindowMs?: number): Promise<number> {
  const { memory } = services.counters;
  const rows = memory.dirtyRows(max, minWindowMs);
  if (rows.length === 0) return 0;
  try {
    await record(services, (tx) => saveCounters(tx, rows));
  } catch (error) {
    memory.requeue(rows);
    throw error;
  }
  return rows.length;
}

/**
 * Saves changed counters at shutdown, those of the longest windows first, for at most 3 s: a process must not be killed
 * while it saves a million counters of a flood.
 */
export async function flushAllCounters(services: Saving, elapsed: () => number = elapsedSinceNow()): Promise<void> {
  for (const minWindowMs of SHUTDOWN_WINDOWS_MS) {
    while ((await flushBatch(services, SHUTDOWN_TRANSACTION_ROWS, minWindowMs)) > 0)
      if (elapsed() >= SHUTDOWN_MS) return;
  }
}

function elapsedSinceNow(): () => number {
  const start = performance.now();
  return () => performance.now() - start;
}

type Loading = Pick<Services, "store" | "clock" | "counters">;

/** Loads what an earlier process saved. Call once, before the first check. */
export async function loadCounters({ store, clock, counters }: Loading): Promise<void> {
  const accounts = new Map<string, string | null>();
  const accountOf = (id: string): string | null => accounts.get(id) ?? null;
  let key = "";
  for (;;) {
    const rows = await countersAfter.all(store.read, { key, now: clock.steady(), limit: FLUSH_ROWS_MAX });
    for (const id of new Set(rows.map((row) => row.key.slice(0, row.key.indexOf("/"))))) {
      if (!accounts.has(id)) accounts.set(id, (await workspaceById.first(store.read, { id }))?.created_by ?? null);
    }
    const more = rows.length === FLUSH_ROWS_MAX;
    counters.memory.load(rows, { accountOf, more });
    if (!more) return;
    key = rows.at(-1)?.key ?? "";
  }
}

export function reapSavedCounters(services: Services): Promise<number> {
  return reap(services, reapCounters, { before: services.clock.steady() });
}
