// What binds an embed token beyond its tenant: granted scopes, where it is used from, how many keys, which rotations.
import { fail } from "../../kernel/errors.ts";
import { normalizeOrigin } from "../../kernel/origins.ts";
import { activeKeysOf, activeSuccessor } from "../../store/queries/keys.ts";
import type { Tx } from "../../store/engine/statement.ts";
import type { ApiKeyRow } from "../../store/schema/tables.ts";
import type { Actor, EmbedActor } from "../core/actor.ts";

export const EMBED_KEYS_MAX = 100;

export type EmbedScope = "keys:read" | "keys:write";

export function requireScope(actor: EmbedActor, scope: EmbedScope): void {
  if (!actor.scopes.includes(scope)) throw fail("insufficient_scope", { missing_scopes: [scope] });
}

/** Refuses scopes that the token may not put on a key. */
export function requireGrantable(actor: EmbedActor, scopes: readonly string[]): void {
  const missing = scopes.map((scope) => `key_scope:${scope}`).filter((scope) => !actor.scopes.includes(scope));
  if (missing.length > 0) throw fail("insufficient_scope", { missing_scopes: [...new Set(missing)] });
}

/** Refuses an Origin header that names no place this token may be used from. */
export function requireOrigin(actor: EmbedActor, origin: string | undefined): void {
  const normal = origin === undefined ? null : normalizeOrigin(origin);
  if (normal === null || !actor.origins.includes(normal)) throw fail("origin_not_allowed");
}

/** Whether the actor ownsKey this key: a vendor all of its workspace's, an embed token those of its own scope. */
export function ownsKey(actor: Actor, row: ApiKeyRow): boolean {
  if (actor.kind !== "embed_token") return true;
  return row.tenant_id === actor.tenant_id && row.project_id === actor.project_id && row.env === actor.env;
}

/** Counts what the same transaction sees, so the job may not run beside others of its kind. */
export async function requireKeyQuota(tx: Tx, actor: EmbedActor, now: number): Promise<void> {
  const { tenant_id, project_id, env } = actor;
  const active = await activeKeysOf.all(tx, { tenant_id, project_id, env, now, max: EMBED_KEYS_MAX });
  if (active.length >= EMBED_KEYS_MAX) throw fail("embed_keys_cap");
}

/** Rotation hands out new material, so it must not reach beyond the token nor double a key again and again. */
export async function requireRotatable(tx: Tx, actor: EmbedActor, row: ApiKeyRow, now: number): Promise<void> {
  requireGrantable(actor, JSON.parse(row.scopes) as string[]);
  if (row.expires_at !== null && row.expires_at <= now) throw fail("expired_not_rotatable");
  const { workspace_id, id } = row;
  if (await activeSuccessor.first(tx, { workspace_id, id, now })) throw fail("successor_still_valid");
}
