// What the holder of an API key may do with it. Responses say nothing about the vendor: no meta, tenant, project or
// node.
import { fail } from "../../kernel/errors.ts";
import { formatTimestamp, formatTimestampOrNull } from "../../kernel/timestamps.ts";
import { selfById } from "../../store/queries/holders.ts";
import type { ApiKeyActor } from "../core/actor.ts";
import { addressRuleOf, tenantList } from "./address-rules.ts";
import type { Ctx } from "../core/context.ts";
import { forCustomer } from "../core/views.ts";
import { awaitKeyChange } from "../nodes/propagation.ts";
import { rotateKey } from "./key-rotation.ts";
import { revokeKey } from "./keys.ts";
import { parseKeyPolicy } from "../key-policy/key-policy.ts";
import { resolveLimits, splitScopes } from "../plans/resolution.ts";

const DEFAULT_REASON = "revoked by its holder";

export async function showSelf({ services, actor }: Ctx<ApiKeyActor>) {
  const { id, workspace_id } = actor;
  const row = await selfById.firstMemoized(services.store.read, { workspace_id, id, now: services.clock.now() });
  if (!row) throw fail("invalid_key");
  const { rate_limits } = resolveLimits({
    key: row.rate_limits,
    tenant: row.tenant_rate_limits,
    plan: row.plan_rate_limits,
    project: row.default_rate_limits ?? "[]",
  });
  const replaced = row.successor_id !== null;
  return {
    object: "self" as const,
    key_id: id,
    env: row.env,
    display_prefix: row.display_prefix,
    name: row.name,
    scopes: splitScopes(JSON.parse(row.scopes) as string[], row.plan_scopes).kept,
    rate_limits,
    address_restricted: addressRuleOf(row, tenantList(row))?.mode === "enforce",
    expires_at: formatTimestampOrNull(row.expires_at),
    quarantined_at: formatTimestampOrNull(row.quarantined_at),
    rotated_from: row.rotated_from,
    replaced,
    rotatable: !replaced && row.quarantined_at === null && parseKeyPolicy(row.key_policy).holder_rotate,
    created_at: formatTimestamp(row.created_at),
  };
}

/** Stopping a leak is never refused. Nodes are the vendor's: a holder learns only whether all of them have it. */
export async function revokeSelf(ctx: Ctx<ApiKeyActor>, reason: string | undefined, wait: boolean) {
  const change = await revokeKey(ctx, ctx.actor.id, reason ?? DEFAULT_REASON);
  const { id: key_id, revoked_at, revoked_reason } = change.key;
  const self = { object: "self" as const, key_id, revoked_at, revoked_reason };
  if (!wait) return self;
  const { complete, waited_ms } = await awaitKeyChange(ctx, change);
  return { ...self, propagation: { complete, waited_ms } };
}

export async function rotateSelf(ctx: Ctx<ApiKeyActor>, overlap_hours: number) {
  const rotated = await rotateKey(ctx, ctx.actor.id, overlap_hours);
  return { ...forCustomer(rotated), previous_key: forCustomer(rotated.previous_key) };
}
