// The ingest budget: events per workspace and UTC minute. Test credentials may use a part of it, and never refuse
// events of live.
import { TEST_PART } from "../../fairness/owners.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import type { Failure } from "../../kernel/errors.ts";
import type { RateLimitState } from "../../kernel/ratelimit/headers.ts";
import type { Tx } from "../../store/engine/tx.ts";
import { budgetRow, chargeBudget, MINUTES_AHEAD } from "../../store/queries/ingest.ts";
import { ownerOf } from "../core/actor.ts";
import type { Machine, Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import { limitRefusal } from "../limits/throttles.ts";

type Budget = { used: number; test_used: number };

/** What the caller may use of it. */
export function budgetMax({ services, actor }: Machine): number {
  const max = services.settings.ingest_events_per_minute;
  return actor.env === "test" ? Math.ceil(max * TEST_PART) : max;
}

function remaining(ctx: Machine, { used, test_used }: Budget): number {
  const max = ctx.services.settings.ingest_events_per_minute;
  const left = ctx.actor.env === "test" ? Math.min(budgetMax(ctx) - test_used, max - used - test_used) : max - used;
  return Math.max(0, left);
}

export async function rejectExhausted(ctx: Machine): Promise<void> {
  const { services, actor } = ctx;
  const row = await budgetRow.first(services.store.read, { workspace_id: actor.workspace_id });
  const ahead = row ? row.minute - minuteOf(services) : -1; // as chargeBudget compares them
  if (row && ahead >= 0 && ahead <= MINUTES_AHEAD && remaining(ctx, row) === 0) throw overBudget(ctx, row);
}

function minuteOf(services: Services): number {
  return Math.floor(services.clock.now() / MINUTE_MS);
}

/** In a transaction of its own, for a batch that may be refused. */
export async function charge(ctx: Machine, cost: number): Promise<Budget> {
  const charged = await record(ctx.services, (tx) => chargeIn(tx, ctx, cost), {
    batch: true,
    owner: ownerOf(ctx.actor),
    locks: ingestLocks(ctx),
  });
  return requireCharged(ctx, charged);
}

/** Locks for the workspace's budget and sums. */
export const ingestLocks = ({ actor }: Machine): string[] => [`ingest/${actor.workspace_id}`];

/** The used budget, and whether it was exceeded. */
export type Charged = Budget & { exceeded?: boolean };

export async function chargeIn(tx: Tx, { services, actor }: Machine, cost: number): Promise<Charged> {
  const { workspace_id, env } = actor;
  const max = services.settings.ingest_events_per_minute;
  const costs = env === "test" ? { cost: 0, test_cost: cost } : { cost, test_cost: 0 };
  const bounds = { max, test_max: Math.ceil(max * TEST_PART) };
  const charged = await chargeBudget.first(tx, { workspace_id, minute: minuteOf(services), ...costs, ...bounds });
  if (charged) return charged;
  const current = await budgetRow.first(tx, { workspace_id });
  return { used: current?.used ?? max, test_used: current?.test_used ?? 0, exceeded: true };
}

export function requireCharged(ctx: Machine, charged: Charged): Budget {
  if (charged.exceeded) throw overBudget(ctx, charged);
  return charged;
}

function overBudget(ctx: Machine, budget: Budget): Failure {
  ctx.services.shares.of("ingest").countRefusal(ownerOf(ctx.actor));
  return limitRefusal("rate_limited", budgetState(ctx, budget));
}

/** The budget as the caller sees it: that of a test credential is its part. */
export function budgetState(ctx: Machine, budget: Budget): RateLimitState {
  return {
    id: "ingest",
    limit: budgetMax(ctx),
    windowMs: MINUTE_MS,
    remaining: remaining(ctx, budget),
    resetMs: MINUTE_MS - (ctx.services.clock.now() % MINUTE_MS),
  };
}
