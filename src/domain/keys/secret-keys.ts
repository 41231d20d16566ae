// Secret keys: the credentials of the vendor's own software.
import { fail, failField } from "../../kernel/errors.ts";
import type { Env } from "../../kernel/credentials.ts";
import { ownRotation } from "../../store/queries/audit.ts";
import {
  countSecretKeys,
  furtherSuccessor,
  countUnrevokedKeys,
  insertSecretKey,
  listSecretKeys as listSecretKeyRows,
  revokeSecretKeyRow,
  secretKeyById,
  shortenSecretKey,
  workingSuccessors,
} from "../../store/queries/secret-keys.ts";
import { withSuccessors } from "./successors.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { SecretKeyRow } from "../../store/schema/tables.ts";
import { hasOwnerScope, restrictionOf, type Actor, type Permission, type Vendor } from "../core/actor.ts";
import { requireManageable, requirePlaceable, requireReadable, visibleEnv } from "../core/env-access.ts";
import { requireFuture } from "../core/clock.ts";
import type { Ctx } from "../core/context.ts";
import type { Event } from "../core/events.ts";
import { onHashConflict, mint, retryOnHashCollision } from "../auth/new-credentials.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { recordLimitReached } from "../core/record-limit.ts";
import { versionGate } from "../core/version-gate.ts";
import { liveProject } from "../workspaces/projects.ts";
import { isOwnHolder, overlapEnd, requireNoQuarantine, successorColumns } from "./rotation.ts";
import { listRecords, type ListQuery } from "../core/list.ts";
import { viewSecretKey, withKey, type Meta, type WithKey, type Rotated, type SecretKey } from "../core/views.ts";

/** Maximum of keys that work, per environment: test keys do not count against live ones. */
export const SECRET_KEYS_MAX = 1_000;
/** Bounds all keys that are not revoked, as a multiple: rotations and short expiries must not make rows without end. */
export const UNREVOKED_PER_WORKING = 10;
/** Rotation may exceed the limit by this much, so that a leak can be answered at the limit. */
const ROTATION_RESERVE = 100;
/** Successors that one call revokes: the transaction delays other writes. */
const SUCCESSORS_MAX = 100;
/** How far a line of rotations is followed: a longer walk would delay other requests. */
const LINE_MAX = 1_000;
/** Why a predecessor is revoked when its successor rotates itself. */
const SUPERSEDED = "superseded";

type NewSecretKey = {
  env: Env;
  name?: string | undefined;
  meta?: Meta | undefined;
  expires_at?: number | undefined;
  permissions?: readonly Permission[] | undefined;
  project_ids?: readonly string[] | undefined;
};

type FreshRow = NewSecretKey &
  Pick<SecretKeyRow, "workspace_id" | "lookup_hash" | "display_prefix"> & { owner_scope: boolean };

export function newSecretKeyRow(ctx: Ctx, key: FreshRow): SecretKeyRow {
  return {
    id: ctx.services.newId(),
    workspace_id: key.workspace_id,
    env: key.env,
    lookup_hash: key.lookup_hash,
    display_prefix: key.display_prefix,
    name: key.name ?? null,
    meta: JSON.stringify(key.meta ?? {}),
    owner_scope: key.owner_scope ? 1 : 0,
    expires_at: key.expires_at ?? null,
    requested_expires_at: key.expires_at ?? null,
    revoked_at: null,
    revoked_reason: null,
    quarantined_at: null,
    quarantine_reason: null,
    rotated_from: null,
    created_at: ctx.services.clock.now(),
    last_used_at: null,
    created_by: personOf(ctx.actor),
    permissions: key.permissions ? JSON.stringify(key.permissions) : null,
    project_ids: key.project_ids ? JSON.stringify(key.project_ids) : null,
  };
}

const personOf = (actor: Actor): string | null => (actor.kind === "session" ? actor.user_id : null);

/** The person who acts, also through a secret key that they minted or that came of one: it may outlive their role. */
export async function personBehind(tx: Tx, actor: Vendor): Promise<string | null> {
  if (actor.kind === "session") return actor.user_id;
  const key = await secretKeyById.first(tx, { workspace_id: actor.workspace_id, id: actor.id });
  return key?.created_by ?? null;
}

export function secretKeyCreated(row: SecretKeyRow): Event {
  const { id, env, display_prefix, name } = row;
  return { action: "secret_key.created", target_id: id, payload: { env, display_prefix, name, ...restrictionIn(row) } };
}

/** For audit payloads: the fields that are set. */
function restrictionIn(row: SecretKeyRow): { permissions?: string[]; project_ids?: string[] } {
  const { permissions, project_ids } = viewSecretKey(row);
  return { ...(permissions && { permissions }), ...(project_ids && { project_ids }) };
}

/** A restricted key has itself only: any other secret key does not exist for it. */
function requireVisible(actor: Actor, id: string): void {
  if (restrictionOf(actor) && actor.kind === "secret_key" && actor.id !== id) throw fail("secret_key_not_found");
}

async function requireSecretKeyRoom(ctx: Ctx<Vendor>, tx: Tx, env: Env, max: number): Promise<void> {
  const counted = { workspace_id: ctx.actor.workspace_id, env, now: ctx.services.clock.now() };
  const working = await countSecretKeys.count(tx, counted);
  const unrevoked = await countUnrevokedKeys.count(tx, counted);
  if (working >= max || unrevoked >= UNREVOKED_PER_WORKING * max) throw recordLimitReached(ctx);
}

export async function createSecretKey(ctx: Ctx<Vendor>, input: NewSecretKey): Promise<WithKey<SecretKey>> {
  if (input.project_ids && !input.permissions)
    throw failField("invalid_body", "permissions", "is required with project_ids");
  requirePlaceable(ctx.actor, ctx.services.clock, input);
  if (input.permissions) await versionGate.assertKnownEverywhere(ctx.services, "restricted secret keys");
  const { workspace_id } = ctx.actor;
  const created = await retryOnHashCollision(() => {
    const minted = mint("secret_key", input.env);
    const owner_scope = hasOwnerScope(ctx.actor) && !input.permissions;
    const row = newSecretKeyRow(ctx, { ...input, ...minted.stored, workspace_id, owner_scope });
    return mutate(ctx, { workspace_id, onConflict: onHashConflict }, async (tx) => {
      requireFuture(ctx.services.clock, input.expires_at);
      await requireSecretKeyRoom(ctx, tx, input.env, SECRET_KEYS_MAX);
      for (const id of input.project_ids ?? []) await liveProject(tx, workspace_id, id);
      await insertSecretKey.run(tx, { ...row, created_by: await personBehind(tx, ctx.actor) });
      return { value: withKey(viewSecretKey(row), minted.text), events: [secretKeyCreated(row)] };
    });
  });
  if (ctx.actor.kind === "session") {
    const { id: secret_key_id, display_prefix } = created;
    const fields = { workspace_id, user_id: ctx.actor.user_id, secret_key_id, display_prefix, ...ctx.from };
    ctx.services.log.info("secret key minted by a person", fields);
  }
  return created;
}

type SecretKeyQuery = ListQuery & { env?: Env | undefined; state?: "quarantined" | undefined };

export async function listSecretKeys(ctx: Ctx<Vendor>, query: SecretKeyQuery) {
  const env = visibleEnv(ctx.actor, query.env) ?? null;
  const isQuarantined = query.state === "quarantined";
  const viewer = withSuccessors(ctx, "secret_keys", viewSecretKey);
  if (restrictionOf(ctx.actor)) {
    const own = await readSecretKey(ctx, ctx.actor.id);
    const isListed = (env ?? own.env) === own.env && !(isQuarantined && own.quarantined_at === null);
    return { object: "list" as const, data: isListed ? [(await viewer([own]))(own)] : [] };
  }
  return listRecords(ctx, query, {
    find: secretKeyById,
    rows: (on, page) => listSecretKeyRows(on, { ...page, env, isQuarantined }),
    viewer,
  });
}

async function readSecretKey(ctx: Ctx<Vendor>, id: string): Promise<SecretKeyRow> {
  requireVisible(ctx.actor, id);
  const row = await secretKeyById.first(ctx.services.store.read, { workspace_id: ctx.actor.workspace_id, id });
  return requireReadable(ctx.actor, row, "secret_key_not_found");
}

async function manageableKey({ actor }: Ctx<Vendor>, tx: Tx, id: string): Promise<SecretKeyRow> {
  const row = await secretKeyById.first(tx, { workspace_id: actor.workspace_id, id });
  return requireManageable(actor, row, "secret_key_not_found");
}

export const showSecretKey = async (ctx: Ctx<Vendor>, id: string): Promise<SecretKey> =>
  viewSecretKey(await readSecretKey(ctx, id));

export async function rotateSecretKey(
  ctx: Ctx<Vendor>,
  id: string,
  overlap_hours: number,
): Promise<Rotated<SecretKey>> {
  requireVisible(ctx.actor, id);
  const { workspace_id } = ctx.actor;
  const endedIds = new Set([id]);
  const rotated = await retryOnHashCollision(() =>
    mutate(ctx, { workspace_id, onConflict: onHashConflict }, async (tx) => {
      const row = await manageableKey(ctx, tx, id);
      if (row.revoked_at !== null) throw fail("revoked_not_rotatable");
      requireNoQuarantine(ctx.actor, row);
      const now = ctx.services.clock.now();
      const ended = isOwnHolder(ctx.actor, row) ? await endOwnOverlap(tx, row, now) : [];
      await requireSecretKeyRoom(ctx, tx, row.env, SECRET_KEYS_MAX + ROTATION_RESERVE);
      const minted = mint("secret_key", row.env);
      const successor: SecretKeyRow = {
        ...row,
        ...successorColumns(row, ctx.services.newId(), now),
        ...minted.stored,
        // The new key must not have more authority than the actor or the old key.
        owner_scope: row.owner_scope === 1 && hasOwnerScope(ctx.actor) ? 1 : 0,
        created_by: (await personBehind(tx, ctx.actor)) ?? row.created_by,
      };
      const previous = { ...row, expires_at: overlapEnd(row, now, overlap_hours) };
      await shortenSecretKey.run(tx, previous);
      await insertSecretKey.run(tx, successor);
      const payload = { env: row.env, successor_id: successor.id, overlap_hours, ...restrictionIn(row) };
      for (const each of ended) endedIds.add(each.id);
      return {
        value: { ...withKey(viewSecretKey(successor), minted.text), previous_key: viewSecretKey(previous) },
        events: [{ action: "secret_key.rotated", target_id: id, payload }, ...ended.map(keyRevoked)],
      };
    }),
  );
  await ctx.services.credentialCache.invalidate([...endedIds]);
  return rotated;
}

/**
 * A restricted key cannot create keys, so rotating itself must not multiply it: it waits for the end of its successor,
 * is refused once that was rotated, and its own predecessor is revoked if that rotated itself too. That includes an
 * expired one, or rotations without an overlap would leave unrevoked keys until the workspace's bound is reached. An
 * overlap that another actor granted is kept. Returns the predecessor that it revoked.
 */
async function endOwnOverlap(tx: Tx, { workspace_id, id, rotated_from }: SecretKeyRow, now: number) {
  if (await furtherSuccessor.first(tx, { workspace_id, id, now })) throw fail("successor_still_valid");
  if (rotated_from === null) return [];
  if (!(await ownRotation.first(tx, { workspace_id, id: rotated_from, successor_id: id }))) return [];
  const before = await secretKeyById.first(tx, { workspace_id, id: rotated_from });
  return before && before.revoked_at === null ? [await revokeRow(tx, before, now, SUPERSEDED)] : [];
}

async function revokeRow(tx: Tx, row: SecretKeyRow, now: number, reason: string | null): Promise<SecretKeyRow> {
  await revokeSecretKeyRow.run(tx, {
    workspace_id: row.workspace_id,
    id: row.id,
    revoked_at: now,
    revoked_reason: reason,
  });
  return { ...row, revoked_at: now, revoked_reason: reason };
}

function keyRevoked({ id, env, revoked_reason: reason }: SecretKeyRow): Event {
  return { action: "secret_key.revoked", target_id: id, payload: { env, reason } };
}

type Revocation = { reason?: string | undefined; successors?: boolean | undefined };
type RevokedSecretKey = SecretKey & { revoked_successors?: number };

/** `successors`: also revokes working keys it was rotated into, even if the key itself is revoked already. */
export async function revokeSecretKey(
  ctx: Ctx<Vendor>,
  id: string,
  { reason, successors = false }: Revocation,
): Promise<RevokedSecretKey> {
  requireVisible(ctx.actor, id);
  // A leaked predecessor must not end the key that replaced it.
  if (successors && restrictionOf(ctx.actor))
    throw failField("lacks_permission", "permissions", "needs an unrestricted key");
  const { workspace_id } = ctx.actor;
  const endedIds = new Set([id]);
  const shown = await mutate(ctx, { workspace_id }, async (tx) => {
    const row = await manageableKey(ctx, tx, id);
    const now = ctx.services.clock.now();
    const made = successors
      ? await workingSuccessors.all(tx, { workspace_id, id, now, depth: LINE_MAX, max: SUCCESSORS_MAX })
      : [];
    const revoked: SecretKeyRow[] = [];
    for (const each of row.revoked_at === null ? [row, ...made] : made) {
      revoked.push(await revokeRow(tx, each, now, reason ?? null));
      endedIds.add(each.id);
    }
    const view = viewSecretKey(revoked.find((each) => each.id === id) ?? row);
    const value = { ...view, ...(successors && { revoked_successors: made.length }) };
    // Nothing may follow the end of the acting key.
    const [first, ...more] = revoked.toSorted((a, b) => Number(a.id === ctx.actor.id) - Number(b.id === ctx.actor.id));
    if (!first) return unchanged(value);
    return { value, events: [keyRevoked(first), ...more.map(keyRevoked)] };
  });
  await ctx.services.credentialCache.invalidate([...endedIds]);
  return shown;
}
