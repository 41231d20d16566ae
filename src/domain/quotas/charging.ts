// Charges requests and leases to quotas, together with rate limits: all of them or none. Units are spent from blocks in
// memory first and put back when a rate limit refuses, because the counters may be on Redis.
import { randomUUID } from "node:crypto";
import { LEASE_MAX_MS } from "../../kernel/ratelimit/window.ts";
import type { CheckRequest, Lease, LeaseRequest, Verdict } from "../../ratelimit/counter.ts";
import { confinedTo, ownerOf, type SecretKeyActor } from "../core/actor.ts";
import type { Machine } from "../core/context.ts";
import { reachesProject } from "../core/env-access.ts";
import type { Spent } from "./blocks.ts";
import type { Definition } from "./definitions.ts";
import type { AppliedQuota } from "./holding.ts";
import { denial, statesOf, type Refusal, type WithQuotas } from "./results.ts";
import { availabilityOf, refusalsOf, spendAll, trySpend, type SpendResult } from "./spending.ts";
import type { Owed } from "./takes.ts";

const NO_RULES: Verdict = {
  allowed: true,
  limited_policy: null,
  retry_after_seconds: null,
  store: "memory",
  policies: [],
};
const NO_LEASE: Lease = { granted: 0, lease_id: null, expires_in_ms: 0, store: "memory", policies: [] };

type Checked = WithQuotas<Verdict>;
type Leased = WithQuotas<Lease>;

type Charge<T> = {
  readonly request: CheckRequest | LeaseRequest;
  readonly owed: Owed;
  /** What is spent of each quota: at least `units`, and up to `most`. `units` 0: nothing, but 1 must be left. */
  readonly units: number;
  readonly most: number;
  accept(applied: AppliedQuota[], spent: Spent[]): T | Promise<T>;
  refuse(applied: AppliedQuota[], refusedBy: readonly Refusal[]): Promise<T>;
};

export function checkWithQuotas(ctx: Machine, request: CheckRequest, owed: Owed): Checked | Promise<Checked> {
  const { cost } = request;
  return chargeQuotas<Checked>(ctx, {
    request,
    owed,
    units: cost,
    most: cost,
    accept: (applied, spent) => checkSpent(ctx, applied, spent, request),
    refuse: async (applied, refusedBy) =>
      denial(ctx, applied, refusedBy, await checkRules(ctx, { ...request, cost: 0 })),
  });
}

export function leaseWithQuotas(ctx: Machine, request: LeaseRequest, owed: Owed): Leased | Promise<Leased> {
  return chargeQuotas<Leased>(ctx, {
    request,
    owed,
    units: 1,
    most: request.want,
    accept: (applied, spent) => leaseSpent(ctx, applied, spent, request),
    async refuse(applied, refusedBy) {
      const { policies } = await checkRules(ctx, { ...request, cost: 0 });
      const { limited_quota, quotas } = denial(ctx, applied, refusedBy, NO_RULES);
      return { ...NO_LEASE, policies, limited_quota, quotas };
    },
  });
}

/**
 * Without a promise when units and counters are in memory, as in `checkLimits`. bench: insight/check-quota,
 * insight/lease-quota
 */
function chargeQuotas<T>(ctx: Machine, charge: Charge<T>): T | Promise<T> {
  const { request, owed, units, most } = charge;
  const applied = appliedOf(ctx, request);
  const waits = applied instanceof Promise || owed.units > 0 || units === 0 || applied.some(isTransient);
  const spent = waits ? undefined : trySpend(applied, units, most, ctx.services.clock.now());
  if (waits || spent === undefined || "refusedBy" in spent) return chargeWaiting(ctx, applied, charge);
  const done = charge.accept(applied, spent);
  return done instanceof Promise ? done.finally(() => releaseTransient(ctx, applied)) : done;
}

const isTransient = ({ holding }: AppliedQuota): boolean => holding.isTransient;

async function chargeWaiting<T>(
  ctx: Machine,
  reading: AppliedQuota[] | Promise<AppliedQuota[]>,
  { owed, units, most, ...charge }: Charge<T>,
): Promise<T> {
  const applied = await reading;
  try {
    if (owed.units > 0) await chargeOwed(ctx, applied, owed);
    const spent = await (units === 0 ? peek(ctx, applied) : spendAll(ctx, applied, units, most));
    if (!("refusedBy" in spent)) return await charge.accept(applied, spent);
    const { refusedBy } = spent;
    const refused = await charge.refuse(applied, refusedBy);
    // Not of those that refused: other keys may spend under another amount what these may not.
    shedAll(
      ctx,
      applied.filter(({ metered }) => !refusedBy.some(({ id }) => id === metered.quota.id)),
    );
    return refused;
  } finally {
    releaseTransient(ctx, applied);
  }
}

/** Charges the rate limits too, or gives the units back. */
function checkSpent(
  ctx: Machine,
  applied: AppliedQuota[],
  spent: Spent[],
  request: CheckRequest,
): Checked | Promise<Checked> {
  const finish = (rules: Verdict): Checked => {
    // A node that has stopped waiting owes the units of the request, and will send them.
    const isCharged = rules.allowed && !ctx.hasDisconnected?.();
    if (!isCharged) restoreAll(ctx, applied, spent, request.cost);
    const quotas = statesOf(ctx, applied); // before units are given back in the transaction that fetches others
    if (isCharged) prefetchAll(ctx, applied);
    else shedAll(ctx, applied);
    return { ...rules, limited_quota: null, quotas };
  };
  const rules = undoOnError(ctx, applied, spent, () => checkRules(ctx, request));
  return rules instanceof Promise ? rules.then(finish) : finish(rules);
}

/** Gives back the units of holdings that are not kept beyond this request. */
function releaseTransient({ services }: Machine, applied: AppliedQuota[]): void {
  for (const { holding } of applied.filter(isTransient)) void services.quotas.giveBack(holding);
}

function checkRules({ services }: Machine, request: CheckRequest): Verdict | Promise<Verdict> {
  return request.limits.length === 0 ? NO_RULES : services.counters.counter.check(request);
}

/** Grants what the rate limits grant too, and gives the other units back. */
function leaseSpent(
  ctx: Machine,
  applied: AppliedQuota[],
  spent: Spent[],
  request: LeaseRequest,
): Leased | Promise<Leased> {
  const { clock, quotas: bank } = ctx.services;
  const want = spent.length === 0 ? request.want : unitsOf(spent[0]!);
  const finish = (rules: Lease): Leased | Promise<Leased> => {
    const isAwaited = !ctx.hasDisconnected?.(); // as for a check: a node that has stopped waiting sends what it owes
    restoreAll(ctx, applied, spent, isAwaited ? want - rules.granted : want);
    const now = clock.now();
    const ends = [now + rules.expires_in_ms, ...spent.flatMap((pieces) => pieces.map(({ block }) => block.end))];
    const end = Math.min(...ends);
    const show = (): Leased => {
      const quotas = statesOf(ctx, applied);
      shedAll(ctx, applied);
      prefetchAll(ctx, applied);
      const expires_in_ms = rules.granted === 0 ? 0 : Math.max(0, end - now);
      return { ...rules, expires_in_ms, limited_quota: null, quotas };
    };
    if (!isAwaited || rules.lease_id === null || applied.length === 0) return show();
    const charges = applied.map((one, i) => ({ ...one, spent: spent[i]! }));
    const { workspace_id } = request;
    const lease = { id: rules.lease_id, workspace_id, granted: rules.granted, end, charges };
    const lent = bank.leases.lend(ownerOf(ctx.actor), lease, now);
    return lent instanceof Promise ? lent.then(show) : show();
  };
  const rules = undoOnError(ctx, applied, spent, () => leaseRules(ctx, { ...request, want }));
  return rules instanceof Promise ? rules.then(finish) : finish(rules);
}

function leaseRules({ services }: Machine, request: LeaseRequest): Lease | Promise<Lease> {
  if (request.limits.length > 0) return services.counters.counter.lease(request);
  return { granted: request.want, lease_id: randomUUID(), expires_in_ms: LEASE_MAX_MS, store: "memory", policies: [] };
}

/** A key that the caller may not use is treated like one that does not exist: it has no quotas. */
function appliedOf(ctx: Machine, request: CheckRequest | LeaseRequest): AppliedQuota[] | Promise<AppliedQuota[]> {
  const { services, actor } = ctx;
  const owner = ownerOf(actor);
  const { workspace_id } = request;
  const apply = (definition: Definition | null): AppliedQuota[] => {
    if (definition === null || !mayCharge(actor, definition)) return [];
    return definition.metered.map((metered) => {
      return { metered, holding: services.quotas.open(owner, workspace_id, metered) };
    });
  };
  const definition = services.quotas.definitions.of(services.store.read, owner, request);
  return definition instanceof Promise ? definition.then(apply) : apply(definition);
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
function undoOnError<T>(
  ctx: Machine,
  applied: AppliedQuota[],
  spent: Spent[],
  work: () => T | Promise<T>,
): T | Promise<T> {
  const undo = (error: unknown): never => {
    restoreAll(ctx, applied, spent, Number.POSITIVE_INFINITY);
    shedAll(ctx, applied);
    throw error;
  };
  try {
    const done = work();
    return done instanceof Promise ? done.catch(undo) : done;
  } catch (error) {
    return undo(error);
  }
}

/** Units that came back, or were taken for a request that another quota refused, do not pile up for a crash to lose. */
function shedAll({ services }: Machine, applied: AppliedQuota[]): void {
  for (const { holding, metered } of applied)
    if (!holding.isTransient && holding.shed(metered.quota)) void services.quotas.giveBack(holding, false);
}

function prefetchAll({ services }: Machine, applied: AppliedQuota[]): void {
  for (const one of applied) services.quotas.prefetch(one);
}

const unitsOf = (spent: Spent): number => spent.reduce((sum, { part }) => sum + part.units, 0);
