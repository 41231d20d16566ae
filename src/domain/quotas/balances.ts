// Reads of balances. What this process holds and has not spent is not spent yet; what another one holds is as it last
// reported.
import type { Env } from "../../kernel/credentials.ts";
import { fail } from "../../kernel/errors.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { keyById } from "../../store/queries/keys.ts";
import { liveTenantById } from "../../store/queries/tenants.ts";
import { confinedTo, type Actor, type EmbedActor, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { requireEnvAccess, requireReadable } from "../core/env-access.ts";
import { readDefinition, type Metered } from "./definitions.ts";
import type { Holding } from "./holding.ts";
import { readBalance } from "./takes.ts";

/** Attempts at a read before one is accepted that overlaps a transaction of this process. */
const ATTEMPTS_MAX = 5;

/** What applies to a key: its own quotas and those of its tenant. */
export async function keyBalances(ctx: Ctx<Vendor>, key_id: string) {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  const row = await keyById.first(services.store.read, { workspace_id, id: key_id });
  const { env, tenant_id } = requireReadable(actor, row, "key_not_found");
  return listBalances(ctx, await meteredOf(ctx, { workspace_id, key_id, tenant_id, env }));
}

export async function tenantBalances(ctx: Ctx<Vendor | EmbedActor>, tenant_id: string, env: Env) {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  if (!(await liveTenantById.first(services.store.read, { workspace_id, id: tenant_id })))
    throw fail("tenant_not_found");
  return listBalances(ctx, await meteredOf(ctx, { workspace_id, key_id: null, tenant_id, env }));
}

/** The environment of a tenant's balance: live, or the one that the actor is confined to. */
export function balanceEnv(actor: Actor, requested: Env | undefined): Env {
  if (requested) requireEnvAccess(actor, requested);
  return requested ?? confinedTo(actor) ?? "live";
}

async function meteredOf(ctx: Ctx, subject: Parameters<typeof readDefinition>[1]): Promise<readonly Metered[]> {
  return (await readDefinition(ctx.services.store.read, subject))?.metered ?? [];
}

async function listBalances(ctx: Ctx, metered: readonly Metered[]) {
  const data = [];
  for (const one of metered) data.push(await balanceOf(ctx, one));
  return { object: "list" as const, data };
}

async function balanceOf(ctx: Ctx, metered: Metered) {
  const { stored, own } = await readBoth(ctx, metered);
  const { quota, scope, source, env } = metered;
  const { others } = stored;
  const held = own.held + others.held;
  const unspent = own.taken + others.unspent;
  const ofAmount = own.fromAmount + (own.held - own.heldGranted) + (others.unspent + others.held - others.granted);
  const fromAmount = stored.fromAmount - ofAmount;
  const granted = stored.granted + own.granted + own.heldGranted + others.granted;
  const isEndless = stored.period.end === Number.POSITIVE_INFINITY;
  return {
    object: "quota_balance" as const,
    id: quota.id,
    scope,
    source,
    env,
    amount: quota.amount,
    refill: quota.refill,
    day: quota.day,
    time_zone: quota.time_zone,
    overage: quota.overage,
    period_start: isEndless ? null : formatTimestamp(stored.period.start),
    resets_at: isEndless ? null : formatTimestamp(stored.period.end),
    granted,
    spent: Math.max(0, stored.taken - unspent - held), // another process may show units that are returned by now
    held,
    remaining: Math.max(0, Math.max(0, quota.amount - fromAmount) + granted - held),
    exceeded: fromAmount > quota.amount,
  };
}

const NOTHING = { taken: 0, fromAmount: 0, granted: 0, held: 0, heldGranted: 0 };

/** Resolves when no transaction of ours is pending. */
async function settled(holding: Holding): Promise<void> {
  while (holding.pending) await holding.pending.catch(() => {});
}

/** The row and this process's own part of it as of one moment: no transaction of ours comes between the two. */
async function readBoth({ services }: Ctx, metered: Metered) {
  const { quotas, clock, store } = services;
  for (let attempt = 1; ; attempt++) {
    const holding = quotas.find(metered);
    if (holding) await settled(holding);
    const transactions = holding?.transactions;
    const stored = await readBalance(store.read, { metered, process_id: quotas.process_id, now: clock.now() });
    quotas.leases.expire(clock.now());
    const isSame = quotas.find(metered) === holding && holding?.transactions === transactions && !holding?.pending;
    if (!isSame && attempt < ATTEMPTS_MAX) continue;
    if (!holding) return { stored, own: NOTHING };
    const { held, heldGranted } = holding;
    return { stored, own: { ...holding.unspentIn(stored.period, clock.now()), held, heldGranted } };
  }
}
