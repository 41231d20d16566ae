// Restrictions of an embed token beyond its tenant: granted scopes, allowed origins, number of keys, rotations.
import { fail } from "../../kernel/errors.ts";
import { normalizeOrigin } from "../../kernel/origins.ts";
import { activeKeysOf, activeSuccessor } from "../../store/queries/keys.ts";
import { liveTenantById } from "../../store/queries/tenants.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { ApiKeyRow } from "../../store/schema/tables.ts";
import type { Actor, EmbedActor } from "../core/actor.ts";
import { parseKeyPolicy } from "../key-policy/key-policy.ts";
import { liveProject } from "../workspaces/projects.ts";

export const EMBED_KEYS_MAX = 100;

export type EmbedScope = "keys:read" | "keys:write";

export function requireScope(actor: EmbedActor, scope: EmbedScope): void {
  if (!actor.scopes.includes(scope)) throw fail("insufficient_scope", { missing_scopes: [scope] });
}

/** Rejects scopes that the token may not put on a key. */
export function requireGrantable(actor: EmbedActor, scopes: readonly string[]): void {
  const missing = scopes.map((scope) => `key_scope:${scope}`).filter((scope) => !actor.scopes.includes(scope));
  if (missing.length > 0) throw fail("insufficient_scope", { missing_scopes: [...new Set(missing)] });
}

/** Rejects an Origin header outside the allowed origins of the token. */
export function requireOrigin(actor: EmbedActor, origin: string | undefined): void {
  const normal = origin === undefined ? null : normalizeOrigin(origin);
  if (normal === null || !actor.origins.includes(normal)) throw fail("origin_not_allowed");
}

/**
 * A vendor owns all keys of its workspace; an embed token those of its tenant, project and environment; a key itself.
 */
export function ownsKey(actor: Actor, row: ApiKeyRow): boolean {
  if (actor.kind === "api_key") return row.id === actor.id;
  if (actor.kind !== "embed_token") return true;
  return row.tenant_id === actor.tenant_id && row.project_id === actor.project_id && row.env === actor.env;
}

/** The tenant's people in the portal, and the holder of a key. */
export function isCustomer(actor: Actor): boolean {
  return actor.kind === "embed_token" || actor.kind === "api_key";
}

async function requireHolderRotation(tx: Tx, { workspace_id, project_id }: ApiKeyRow): Promise<void> {
  const { key_policy } = await liveProject(tx, workspace_id, project_id);
  if (!parseKeyPolicy(key_policy).holder_rotate) throw fail("holder_rotate_off");
}

/** Caution: counts within the transaction, so the job must not share a batch. */
export async function requireRoomForKey(tx: Tx, actor: EmbedActor, now: number): Promise<void> {
  const { workspace_id, tenant_id, project_id, env } = actor;
  const active = await activeKeysOf.all(tx, { workspace_id, tenant_id, project_id, env, now, max: EMBED_KEYS_MAX });
  if (active.length >= EMBED_KEYS_MAX) throw fail("embed_keys_cap");
}

/**
 * A customer's rotation issues a new key, so it must not exceed the token's scopes, nor multiply keys by repetition.
 */
export async function requireRotatable(tx: Tx, actor: Actor, row: ApiKeyRow, now: number): Promise<void> {
  if (!isCustomer(actor)) return;
  const tenant = await liveTenantById.first(tx, { workspace_id: row.workspace_id, id: row.tenant_id });
  if (tenant && tenant.suspended_at !== null) throw fail("tenant_is_suspended");
  if (actor.kind === "embed_token") requireGrantable(actor, JSON.parse(row.scopes) as string[]);
  else await requireHolderRotation(tx, row);
  if (row.expires_at !== null && row.expires_at <= now) throw fail("expired_not_rotatable");
  const { workspace_id, id } = row;
  if (await activeSuccessor.first(tx, { workspace_id, id, now })) throw fail("successor_still_valid");
}
