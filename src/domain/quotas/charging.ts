// Charges requests and leases to quotas, together with rate limits: all of them or none. Units are spent from blocks in
// memory first and put back when a rate limit refuses, because the counters may be on Redis.
import { randomUUID } from "node:crypto";
import { fail } from "../../kernel/errors.ts";
import type { MaybePromise } from "../../kernel/maybe-promise.ts";
import type { Overage } from "../../kernel/quotas/quota.ts";
import { LEASE_MAX_MS, retryAfterSeconds } from "../../kernel/ratelimit/window.ts";
import type { CheckRequest, Lease, LeaseRequest, Verdict } from "../../ratelimit/counter.ts";
import { confinedTo, ownerOf, type SecretKeyActor } from "../core/actor.ts";
import type { Machine } from "../core/context.ts";
import { reachesProject } from "../core/env-access.ts";
import type { Definition } from "./definitions.ts";
import type { Holding, Spent } from "./holding.ts";
import type { Owed } from "./takes.ts";

/**
 * A request that loses its units to others this often is refused for a second. Each attempt is one transaction, shared
 * by all requests that wait for the balance, and at least one of them gets its units: under contention for the last
 * ones, where a block is one unit, the last of n requests needs n attempts. Taking units for all of them at once would
 * need fewer, but a crash would then cost more than two blocks.
 */
const ATTEMPTS_MAX = 1_000;
/** While another process holds the last units, it gives unused ones back within this time. */
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

/** What was spent of each holding, or those that refused. */
type Charge = Spent[] | { readonly refusedBy: readonly Holding[] };

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
  const holdings = await holdingsOf(ctx, request);
  try {
    if (owed.units > 0) await chargeOwed(ctx, holdings, owed);
    return await checkHoldings(ctx, holdings, request);
  } finally {
    releaseTransient(ctx, holdings);
  }
}

async function checkHoldings(ctx: Machine, holdings: Holding[], request: CheckRequest): Promise<WithQuotas<Verdict>> {
  const { cost } = request;
  const spent = await (cost === 0 ? peek(ctx, holdings) : spendAll(ctx, holdings, cost));
  if ("refusedBy" in spent) {
    const rules = await checkRules(ctx, { ...request, cost: 0 });
    return denial(ctx, holdings, { ...spent, cost, rules });
  }
  const rules = await undoOnError(ctx, holdings, spent, () => checkRules(ctx, request));
  // A node that has stopped waiting owes the units of the request, and will send them.
  if (!rules.allowed || ctx.hasDisconnected?.()) restoreAll(ctx, holdings, spent, cost);
  else prefetchAll(ctx, holdings);
  return { ...rules, limited_quota: null, quotas: statesOf(ctx, holdings) };
}

/** Gives back the units of holdings that are not kept beyond this request. */
function releaseTransient({ services }: Machine, holdings: Holding[]): void {
  for (const holding of holdings) if (holding.isTransient) void services.quotas.giveBack(holding);
}

function checkRules({ services }: Machine, request: CheckRequest): MaybePromise<Verdict> {
  return request.limits.length === 0 ? NO_RULES : services.counters.counter.check(request);
}

export async function leaseWithQuotas(ctx: Machine, request: LeaseRequest, owed: Owed): Promise<WithQuotas<Lease>> {
  const holdings = await holdingsOf(ctx, request);
  try {
    return await leaseHoldings(ctx, holdings, request, owed);
  } finally {
    releaseTransient(ctx, holdings);
  }
}

async function leaseHoldings(
  ctx: Machine,
  holdings: Holding[],
  request: LeaseRequest,
  owed: Owed,
): Promise<WithQuotas<Lease>> {
  if (owed.units > 0) await chargeOwed(ctx, holdings, owed);
  const spent = await spendAll(ctx, holdings, 1, request.want);
  if ("refusedBy" in spent) {
    const { policies } = await checkRules(ctx, { ...request, cost: 0 });
    const { limited_quota, quotas } = denial(ctx, holdings, { ...spent, cost: 1, rules: NO_RULES });
    return { ...NO_LEASE, policies, limited_quota, quotas };
  }
  const { clock, quotas } = ctx.services;
  const want = spent.length === 0 ? request.want : unitsOf(spent[0]!);
  const rules = await undoOnError(ctx, holdings, spent, () => leaseRules(ctx, { ...request, want }));
  const isAwaited = !ctx.hasDisconnected?.(); // as for a check: a node that has stopped waiting sends what it owes
  restoreAll(ctx, holdings, spent, isAwaited ? want - rules.granted : want);
  const now = clock.now();
  const ends = [now + rules.expires_in_ms, ...spent.flatMap((pieces) => pieces.map(({ block }) => block.end))];
  const end = Math.min(...ends);
  if (isAwaited && rules.lease_id !== null && holdings.length > 0) {
    const charges = holdings.map((holding, i) => ({ holding, spent: spent[i]! }));
    const { workspace_id } = request;
    await quotas.lend(ownerOf(ctx.actor), { id: rules.lease_id, workspace_id, granted: rules.granted, end, charges });
  }
  prefetchAll(ctx, holdings);
  const expires_in_ms = rules.granted === 0 ? 0 : Math.max(0, end - now);
  return { ...rules, expires_in_ms, limited_quota: null, quotas: statesOf(ctx, holdings) };
}

async function leaseRules({ services }: Machine, request: LeaseRequest): Promise<Lease> {
  if (request.limits.length > 0) return services.counters.counter.lease(request);
  return { granted: request.want, lease_id: randomUUID(), expires_in_ms: LEASE_MAX_MS, store: "memory", policies: [] };
}

/** A key that the caller may not use is treated like one that does not exist: it has no quotas. */
async function holdingsOf(ctx: Machine, request: CheckRequest | LeaseRequest): Promise<Holding[]> {
  const { services, actor } = ctx;
  const owner = ownerOf(actor);
  const definition = await services.quotas.definitions.of(services.store.read, owner, request);
  if (definition === null || !mayCharge(actor, definition)) return [];
  return definition.metered.map((metered) =>
    services.quotas.open(owner, request.workspace_id, metered, definition.order),
  );
}

function mayCharge(actor: SecretKeyActor, { env, project_id }: Definition): boolean {
  if (confinedTo(actor) === "test" && env === "live") return false;
  return project_id === null || reachesProject(actor, project_id);
}

async function chargeOwed({ services }: Machine, holdings: Holding[], owed: Owed): Promise<void> {
  const { quotas, writtenBytes } = services;
  const charge = (holding: Holding): Promise<void> =>
    quotas.chargeOwed(holding, { ...owed, storesId: writtenBytes.hasRoom(holding.owner) });
  await Promise.all(holdings.map(charge));
}

/** Spends at least `units` and up to `most` from every holding, or nothing if one of them has too little. */
function spendAll(ctx: Machine, holdings: Holding[], units: number, most = units): MaybePromise<Charge> {
  const spent = trySpend(holdings, units, most, ctx.services.clock.now());
  return spent === undefined ? fetchAndSpend(ctx, holdings, units, most) : spent;
}

/**
 * Returns undefined if the database must be read first. Caution: must stay synchronous between checking and spending.
 */
function trySpend(holdings: Holding[], units: number, most: number, now: number): Charge | undefined {
  let [count, isUnknown] = [most, false];
  for (const holding of holdings) {
    const availability = holding.availability(units, now);
    if (availability === "denied") return { refusedBy: refusing(holdings, units, now) };
    isUnknown ||= availability === "unknown";
    count = Math.min(count, holding.unspent);
  }
  return isUnknown ? undefined : holdings.map((holding) => holding.spend(count, now));
}

const refusing = (holdings: Holding[], units: number, now: number): Holding[] =>
  holdings.filter((holding) => holding.availability(units, now) === "denied");

async function fetchAndSpend(ctx: Machine, holdings: Holding[], units: number, most: number): Promise<Charge> {
  const { quotas, clock } = ctx.services;
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const missing = holdings.filter((holding) => holding.availability(units, clock.now()) === "unknown");
    await Promise.all(missing.map((holding) => quotas.fetch(holding, units)));
    const spent = trySpend(holdings, units, most, clock.now());
    if (spent !== undefined) return spent;
  }
  throw fail("unavailable");
}

/** Reports whether 1 unit would be admitted, without charging anything. */
async function peek(ctx: Machine, holdings: Holding[]): Promise<Charge> {
  const { clock, quotas } = ctx.services;
  const now = clock.now();
  const unread = holdings.filter((holding) => holding.availability(1, now) !== "ready" && !holding.isKnown(now));
  await Promise.all(unread.map((holding) => quotas.look(holding)));
  const refusedBy = refusing(holdings, 1, clock.now());
  return refusedBy.length > 0 ? { refusedBy } : holdings.map(() => []);
}

function restoreAll({ services }: Machine, holdings: Holding[], spent: Spent[], units: number): void {
  if (units <= 0) return;
  const now = services.clock.now();
  for (const [i, holding] of holdings.entries()) holding.restore(spent[i]!, units, now);
}

/** Restores the units if the counters fail, as they may on Redis. */
async function undoOnError<T>(
  ctx: Machine,
  holdings: Holding[],
  spent: Spent[],
  work: () => MaybePromise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    restoreAll(ctx, holdings, spent, Number.POSITIVE_INFINITY);
    throw error;
  }
}

function prefetchAll({ services }: Machine, holdings: Holding[]): void {
  for (const holding of holdings) services.quotas.prefetch(holding);
}

const unitsOf = (spent: Spent): number => spent.reduce((sum, { part }) => sum + part.units, 0);

type Refusal = { refusedBy: readonly Holding[]; cost: number; rules: Verdict };

/**
 * The refusal by quotas. `rules`: the rate limits' verdict on one more request. Reading it may take a while, so
 * `refusedBy` is the earlier result: a holding's cached denial may have expired since.
 */
function denial(ctx: Machine, holdings: Holding[], { refusedBy, cost, rules }: Refusal): WithQuotas<Verdict> {
  const { quotas, clock } = ctx.services;
  const now = clock.now();
  const units = Math.max(1, cost);
  quotas.metrics.denied++;
  let [limited, longest] = [null as string | null, 0];
  for (const holding of refusedBy) {
    const wait = waitOf(holding, units, now);
    if (limited === null || wait > longest) [limited, longest] = [holding.quota.id, wait];
  }
  const ruleWait = rules.allowed ? 0 : (rules.retry_after_seconds ?? Number.POSITIVE_INFINITY) * 1_000;
  return {
    ...rules,
    allowed: false,
    retry_after_seconds: retryAfterSeconds(Math.max(longest, ruleWait)),
    limited_quota: limited,
    quotas: statesOf(ctx, holdings),
  };
}

/** Milliseconds until the request may be admitted; Infinity where waiting does not help. */
function waitOf({ stored, quota, granted }: Holding, units: number, now: number): number {
  if (stored === null || units > quota.amount + stored.granted + granted + stored.others.granted)
    return Number.POSITIVE_INFINITY;
  const wait = stored.period.end - now;
  return stored.others.unspent > 0 ? Math.min(wait, OTHERS_WAIT_MS) : wait;
}

function statesOf({ services }: Machine, holdings: Holding[]): QuotaState[] {
  const now = services.clock.now();
  return holdings.map((holding) => {
    const { metered, quota, stored, unspent, granted } = holding;
    const fromAmount = (stored?.fromAmount ?? 0) - (unspent - granted);
    const left = Math.max(0, quota.amount - fromAmount);
    const end = stored?.period.end ?? Number.POSITIVE_INFINITY;
    return {
      id: quota.id,
      scope: metered.scope,
      amount: quota.amount,
      remaining: left + (stored?.granted ?? 0) + granted,
      reset_ms: end === Number.POSITIVE_INFINITY ? null : Math.max(0, end - now),
      overage: quota.overage,
      exceeded: fromAmount > quota.amount,
    };
  });
}
