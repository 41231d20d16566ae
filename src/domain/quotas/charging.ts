// Charges requests and leases to quotas, together with rate limits: all of them or none. Units are spent from blocks in
// memory first and put back when a rate limit refuses, because the counters may be on Redis.
import { randomUUID } from "node:crypto";
import { fail } from "../../kernel/errors.ts";
import type { Overage } from "../../kernel/quotas/quota.ts";
import { LEASE_MAX_MS, retryAfterSeconds } from "../../kernel/ratelimit/window.ts";
import type { CheckRequest, Lease, LeaseRequest, Verdict } from "../../ratelimit/counter.ts";
import { confinedTo, ownerOf, type SecretKeyActor } from "../core/actor.ts";
import type { Machine } from "../core/context.ts";
import { reachesProject } from "../core/env-access.ts";
import type { Definition } from "./definitions.ts";
import type { AppliedQuota, Spent } from "./holding.ts";
import { availableOf, type Owed } from "./takes.ts";

/**
 * A request that loses its units to others this often is refused for a second. Each attempt is one transaction, shared
 * by all requests that wait for the balance, and at least one of them gets its units: under contention for the last
 * ones, where a block is one unit, the last of n requests needs n attempts. Taking units for all of them at once would
 * need fewer, but a crash would then cost more than two blocks.
 */
const ATTEMPTS_MAX = 1_000;
/** Where other processes hold the units that a request lacks: they give unused ones back within this time. */
const OTHERS_WAIT_MS = 10_000;

type QuotaState = {
  id: string;
  scope: "key" | "tenant";
  amount: number;
  remaining: number;
  reset_ms: number | null;
  overage: Overage;
  exceeded: boolean;
};

/** A quota that lacks units, and the milliseconds until it may have them; Infinity if waiting does not help. */
type Refusal = { readonly id: string; readonly wait: number };
/** What was spent of each quota, or who refused. */
type SpendResult = Spent[] | { readonly refusedBy: readonly Refusal[] };

export type WithQuotas<T> = T & { limited_quota: string | null; quotas: QuotaState[] };

const NO_RULES: Verdict = {
  allowed: true,
  limited_policy: null,
  retry_after_seconds: null,
  store: "memory",
  policies: [],
};
const NO_LEASE: Lease = { granted: 0, lease_id: null, expires_in_ms: 0, store: "memory", policies: [] };

export async function checkWithQuotas(ctx: Machine, request: CheckRequest, owed: Owed): Promise<WithQuotas<Verdict>> {
  const applied = await appliedOf(ctx, request);
  try {
    if (owed.units > 0) await chargeOwed(ctx, applied, owed);
    return await checkApplied(ctx, applied, request);
  } finally {
    releaseTransient(ctx, applied);
  }
}

async function checkApplied(
  ctx: Machine,
  applied: AppliedQuota[],
  request: CheckRequest,
): Promise<WithQuotas<Verdict>> {
  const { cost } = request;
  const spent = await (cost === 0 ? peek(ctx, applied) : spendAll(ctx, applied, cost));
  if ("refusedBy" in spent) {
    const rules = await checkRules(ctx, { ...request, cost: 0 });
    return denial(ctx, applied, spent.refusedBy, rules);
  }
  const rules = await undoOnError(ctx, applied, spent, () => checkRules(ctx, request));
  // A node that has stopped waiting owes the units of the request, and will send them.
  const isCharged = rules.allowed && !ctx.hasDisconnected?.();
  if (!isCharged) restoreAll(ctx, applied, spent, cost);
  const quotas = statesOf(ctx, applied); // before units are given back in the transaction that fetches others
  if (isCharged) prefetchAll(ctx, applied);
  return { ...rules, limited_quota: null, quotas };
}

/** Gives back the units of holdings that are not kept beyond this request. */
function releaseTransient({ services }: Machine, applied: AppliedQuota[]): void {
  for (const { holding } of applied) if (holding.isTransient) void services.quotas.giveBack(holding);
}

async function checkRules({ services }: Machine, request: CheckRequest): Promise<Verdict> {
  return request.limits.length === 0 ? NO_RULES : services.counters.counter.check(request);
}

export async function leaseWithQuotas(ctx: Machine, request: LeaseRequest, owed: Owed): Promise<WithQuotas<Lease>> {
  const applied = await appliedOf(ctx, request);
  try {
    return await leaseApplied(ctx, applied, request, owed);
  } finally {
    releaseTransient(ctx, applied);
  }
}

async function leaseApplied(
  ctx: Machine,
  applied: AppliedQuota[],
  request: LeaseRequest,
  owed: Owed,
): Promise<WithQuotas<Lease>> {
  if (owed.units > 0) await chargeOwed(ctx, applied, owed);
  const spent = await spendAll(ctx, applied, 1, request.want);
  if ("refusedBy" in spent) {
    const { policies } = await checkRules(ctx, { ...request, cost: 0 });
    const { limited_quota, quotas } = denial(ctx, applied, spent.refusedBy, NO_RULES);
    return { ...NO_LEASE, policies, limited_quota, quotas };
  }
  const { clock, quotas: bank } = ctx.services;
  const want = spent.length === 0 ? request.want : unitsOf(spent[0]!);
  const rules = await undoOnError(ctx, applied, spent, () => leaseRules(ctx, { ...request, want }));
  const isAwaited = !ctx.hasDisconnected?.(); // as for a check: a node that has stopped waiting sends what it owes
  restoreAll(ctx, applied, spent, isAwaited ? want - rules.granted : want);
  const now = clock.now();
  const ends = [now + rules.expires_in_ms, ...spent.flatMap((pieces) => pieces.map(({ block }) => block.end))];
  const end = Math.min(...ends);
  if (isAwaited && rules.lease_id !== null && applied.length > 0) {
    const charges = applied.map((one, i) => ({ ...one, spent: spent[i]! }));
    const { workspace_id } = request;
    const lease = { id: rules.lease_id, workspace_id, granted: rules.granted, end, charges };
    await bank.leases.lend(ownerOf(ctx.actor), lease, now);
  }
  const quotas = statesOf(ctx, applied);
  prefetchAll(ctx, applied);
  const expires_in_ms = rules.granted === 0 ? 0 : Math.max(0, end - now);
  return { ...rules, expires_in_ms, limited_quota: null, quotas };
}

async function leaseRules({ services }: Machine, request: LeaseRequest): Promise<Lease> {
  if (request.limits.length > 0) return services.counters.counter.lease(request);
  return { granted: request.want, lease_id: randomUUID(), expires_in_ms: LEASE_MAX_MS, store: "memory", policies: [] };
}

/** A key that the caller may not use is treated like one that does not exist: it has no quotas. */
async function appliedOf(ctx: Machine, request: CheckRequest | LeaseRequest): Promise<AppliedQuota[]> {
  const { services, actor } = ctx;
  const owner = ownerOf(actor);
  const definition = await services.quotas.definitions.of(services.store.read, owner, request);
  if (definition === null || !mayCharge(actor, definition)) return [];
  const { workspace_id } = request;
  return definition.metered.map((metered) => {
    return { metered, holding: services.quotas.open(owner, workspace_id, metered) };
  });
}

function mayCharge(actor: SecretKeyActor, { env, project_id }: Definition): boolean {
  if (confinedTo(actor) === "test" && env === "live") return false;
  return project_id === null || reachesProject(actor, project_id);
}

async function chargeOwed({ services }: Machine, applied: AppliedQuota[], owed: Owed): Promise<void> {
  const { quotas, writtenBytes } = services;
  const charge = (one: AppliedQuota): Promise<void> =>
    quotas.chargeOwed(one, { ...owed, storesId: writtenBytes.hasRoom(one.holding.owner) });
  await Promise.all(applied.map(charge));
}

/** Spends at least `units` and up to `most` from every quota, or nothing if one of them has too little. */
async function spendAll(ctx: Machine, applied: AppliedQuota[], units: number, most = units): Promise<SpendResult> {
  const spent = trySpend(applied, units, most, ctx.services.clock.now());
  return spent ?? fetchAndSpend(ctx, applied, units, most);
}

/**
 * Returns undefined if the database must be read first. Caution: must stay synchronous between checking and spending.
 */
function trySpend(applied: AppliedQuota[], units: number, most: number, now: number): SpendResult | undefined {
  let [count, isUnknown] = [most, false];
  for (const one of applied) {
    const availability = availabilityOf(one, units, now);
    if (availability === "denied") return { refusedBy: refusalsOf(applied, units, now) };
    isUnknown ||= availability === "unknown";
    count = Math.min(count, one.holding.spendable(one.metered.quota));
  }
  return isUnknown ? undefined : applied.map(({ holding, metered }) => holding.spend(metered.quota, count, now));
}

const availabilityOf = ({ holding, metered }: AppliedQuota, units: number, now: number) =>
  holding.availability(metered.quota, units, now);

function refusalsOf(applied: AppliedQuota[], units: number, now: number): Refusal[] {
  const refusing = applied.filter((one) => availabilityOf(one, units, now) === "denied");
  return refusing.map((one) => ({ id: one.metered.quota.id, wait: waitOf(one, units, now) }));
}

async function fetchAndSpend(ctx: Machine, applied: AppliedQuota[], units: number, most: number): Promise<SpendResult> {
  const { quotas, clock } = ctx.services;
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const missing = applied.filter((one) => availabilityOf(one, units, clock.now()) === "unknown");
    await Promise.all(missing.map((one) => quotas.fetch(one, units)));
    const spent = trySpend(applied, units, most, clock.now());
    if (spent !== undefined) return spent;
  }
  throw fail("unavailable");
}

/** Reports whether 1 unit would be admitted, without charging anything. */
async function peek(ctx: Machine, applied: AppliedQuota[]): Promise<SpendResult> {
  const { clock, quotas } = ctx.services;
  const now = clock.now();
  const missing = applied.filter((one) => availabilityOf(one, 1, now) !== "ready");
  const unread = missing.filter(({ holding }) => !holding.isKnown(now));
  await Promise.all(unread.map(({ holding }) => quotas.readBalance(holding)));
  const refusedBy = refusalsOf(applied, 1, clock.now());
  return refusedBy.length > 0 ? { refusedBy } : applied.map(() => []);
}

function restoreAll({ services }: Machine, applied: AppliedQuota[], spent: Spent[], units: number): void {
  if (units <= 0) return;
  const now = services.clock.now();
  for (const [i, { holding }] of applied.entries()) holding.restore(spent[i]!, units, now);
}

/** Restores the units if the counters fail, as they may on Redis. */
async function undoOnError<T>(
  ctx: Machine,
  applied: AppliedQuota[],
  spent: Spent[],
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    restoreAll(ctx, applied, spent, Number.POSITIVE_INFINITY);
    throw error;
  }
}

function prefetchAll({ services }: Machine, applied: AppliedQuota[]): void {
  for (const one of applied) services.quotas.prefetch(one);
}

const unitsOf = (spent: Spent): number => spent.reduce((sum, { part }) => sum + part.units, 0);

/**
 * The refusal by quotas. `rules`: the rate limits' verdict on one more request. Reading it may take a while, so
 * `refusedBy` is the earlier result: a holding's cached denial may have expired since.
 */
function denial(
  ctx: Machine,
  applied: AppliedQuota[],
  refusedBy: readonly Refusal[],
  rules: Verdict,
): WithQuotas<Verdict> {
  ctx.services.quotas.metrics.denied++;
  const limiting = refusedBy.reduce((longest, one) => (one.wait > longest.wait ? one : longest));
  const ruleWait = rules.allowed ? 0 : (rules.retry_after_seconds ?? Number.POSITIVE_INFINITY) * 1_000;
  return {
    ...rules,
    allowed: false,
    retry_after_seconds: retryAfterSeconds(Math.max(limiting.wait, ruleWait)),
    limited_quota: limiting.id,
    quotas: statesOf(ctx, applied),
  };
}

/** Precondition: the holding is known. */
function waitOf({ holding, metered: { quota } }: AppliedQuota, units: number, now: number): number {
  const { stored } = holding;
  const others = stored?.others;
  const { fromAmount, granted } = holding.usage(now);
  if (!others || units > quota.amount + granted + others.granted) return Number.POSITIVE_INFINITY;
  const wait = stored.period.end - now;
  const fromGrants = Math.min(others.unspent, others.granted);
  const ofOthers = others.unspent - fromGrants;
  const left = Math.max(0, quota.amount - fromAmount + ofOthers) + granted + fromGrants;
  return left >= units ? Math.min(wait, OTHERS_WAIT_MS) : wait;
}

function statesOf({ services }: Machine, applied: AppliedQuota[]): QuotaState[] {
  const now = services.clock.now();
  return applied.map(({ holding, metered: { quota, scope } }) => {
    const usage = holding.usage(now);
    const end = holding.stored?.period.end ?? Number.POSITIVE_INFINITY;
    return {
      id: quota.id,
      scope,
      amount: quota.amount,
      remaining: availableOf(usage, quota),
      reset_ms: end === Number.POSITIVE_INFINITY ? null : Math.max(0, end - now),
      overage: quota.overage,
      exceeded: usage.fromAmount > quota.amount,
    };
  });
}
