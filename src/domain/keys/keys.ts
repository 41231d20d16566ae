// API keys, which tenants present to the vendor's API. The text of a key is returned once, at creation or rotation.
import { fail, failField } from "../../kernel/errors.ts";
import type { Env } from "../../kernel/credentials.ts";
import { CAP } from "../../kernel/policy/capabilities.ts";
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import { OWN_PREFIX } from "../../kernel/key-prefixes.ts";
import { thenMaybe, type MaybePromise } from "../../kernel/maybe-promise.ts";
import {
  insertKey,
  keyById,
  listKeys as listKeyRows,
  revokeKeyRow,
  shortenKey,
  updateKey,
} from "../../store/queries/keys.ts";
import { headsByIds } from "../../store/queries/policy.ts";
import type { Tx } from "../../store/engine/statement.ts";
import type { ApiKeyRow, ProjectRow } from "../../store/schema/tables.ts";
import { projectsOf, type ApiKeyActor, type EmbedActor, type Vendor } from "../core/actor.ts";
import {
  positionAfter,
  requireEnvAccess,
  requireManageable,
  requireProjectAccess,
  requireReadable,
  visibleEnv,
} from "../core/env-access.ts";
import type { Ctx } from "../core/context.ts";
import { ownsKey, requireRotatable, requireKeyQuota } from "../embed/rules.ts";
import { changes, type Event } from "../core/events.ts";
import { onHashConflict, mint, mintKey, retryOnHashCollision, type NewCredential } from "../auth/new-credentials.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import {
  initialExpiry,
  parseKeyPolicy,
  requireWithinMax,
  successorExpiry,
  type KeyPolicy,
} from "../core/key-policy.ts";
import { unknownScopes } from "../core/scope-catalogue.ts";
import { withWarnings, type Warned } from "../core/warnings.ts";
import { liveProject } from "../workspaces/projects.ts";
import { overlapEnd, successorColumns } from "./rotation.ts";
import { liveTenant } from "../workspaces/tenants.ts";
import { cutListOf } from "../core/list.ts";
import { viewKey, withKey, type ApiKey, type Meta, type WithKey, type Rotated } from "../core/views.ts";

export type NewKey = {
  project_id: string;
  tenant_id: string;
  env: Env;
  name?: string | undefined;
  scopes?: string[] | undefined;
  meta?: Meta | undefined;
  rate_limits?: RateLimit[] | null | undefined;
  /** Null: none. Absent: what the project's policy says. */
  expires_at?: number | null | undefined;
};

type KeyManager = Ctx<Vendor | EmbedActor>;
/** Its holder may rotate and revoke a key too. */
type KeyHolder = Ctx<Vendor | EmbedActor | ApiKeyActor>;

export function createKey(ctx: KeyManager, input: NewKey): Promise<Warned<WithKey<ApiKey>>> {
  requireEnvAccess(ctx.actor, input.env);
  requireProjectAccess(ctx.actor, input.project_id);
  requireFuture(ctx, input.expires_at);
  const { actor } = ctx;
  const { workspace_id } = actor;
  const embed = actor.kind === "embed_token" ? actor : null;
  return retryOnHashCollision(() => {
    const early = mint("api_key", input.env); // before the transaction, which occupies the only writer
    return mutate(ctx, { workspace_id, onConflict: onHashConflict, batch: !embed }, async (tx) => {
      const [project, tenant] = await Promise.all([
        liveProject(tx, workspace_id, input.project_id),
        liveTenant(tx, workspace_id, input.tenant_id),
      ]);
      if (embed && tenant.suspended_at !== null) throw fail("tenant_is_suspended");
      if (embed) await requireKeyQuota(tx, embed, ctx.services.clock.now());
      const policy_version = await tx.bump(project.id, tenant.suspended_at === null ? {} : { uses: CAP.disabled });
      const minted = project.key_prefix === OWN_PREFIX ? early : mintKey(project.key_prefix, input.env);
      const row = newKeyRow(ctx, input, minted.stored, { project, tenant, policy_version });
      await insertKey.insertDeferred(tx, row); // bench: vendor/mint
      const scopes = input.scopes ?? [];
      const created = withKey(viewKey(row), minted.text);
      const warnings = embed ? [] : unknownScopes(project.scope_catalogue, scopes);
      return { value: withWarnings(created, warnings), events: [keyCreated(row, scopes)] };
    });
  });
}

type KeyOwner = { project: Pick<ProjectRow, "id" | "key_policy">; tenant: { id: string }; policy_version: number };

export function newKeyRow(ctx: KeyManager, key: NewKey, stored: NewCredential["stored"], owner: KeyOwner): ApiKeyRow {
  const now = ctx.services.clock.now();
  return {
    id: ctx.services.newId(),
    workspace_id: ctx.actor.workspace_id,
    project_id: owner.project.id,
    tenant_id: owner.tenant.id,
    env: key.env,
    lookup_hash: stored.lookup_hash,
    display_prefix: stored.display_prefix,
    name: key.name ?? null,
    scopes: JSON.stringify(key.scopes ?? []),
    meta: JSON.stringify(key.meta ?? {}),
    rate_limits: key.rate_limits ? JSON.stringify(key.rate_limits) : null,
    expires_at: initialExpiry(parseKeyPolicy(owner.project.key_policy), now, key.expires_at),
    requested_expires_at: key.expires_at ?? null,
    revoked_at: null,
    revoked_reason: null,
    revoked_cause: null,
    quarantined_at: null,
    quarantine_reason: null,
    rotated_from: null,
    created_at: now,
    last_used_at: null,
    policy_version: owner.policy_version,
    disabled_at: null,
    disabled_reason: null,
    enabled_at: null,
  };
}

export function keyCreated(row: ApiKeyRow, scopes: string[]): Event {
  const { env, display_prefix, name } = row;
  const payload = { env, display_prefix, name, scopes };
  return { action: "api_key.created", target_id: row.id, payload };
}

function requireFuture(ctx: Ctx, expires_at: number | null | undefined): void {
  if (typeof expires_at === "number" && expires_at <= ctx.services.clock.now()) {
    throw failField("invalid_body", "expires_at", "must be in the future");
  }
}

export type KeyQuery = {
  project_id?: string | undefined;
  tenant_id?: string | undefined;
  env?: Env | undefined;
  include_revoked: boolean;
  limit: number;
  after?: string | undefined;
};

export async function listKeys(ctx: Ctx<Vendor>, query: KeyQuery) {
  const { read } = ctx.services.store;
  const { workspace_id } = ctx.actor;
  const env = visibleEnv(ctx.actor, query.env);
  const after = query.after
    ? positionAfter(ctx.actor, await keyById.first(read, { workspace_id, id: query.after }))
    : null;
  const projects = projectsOf(ctx.actor);
  const rows = await listKeyRows(read, { ...query, workspace_id, projects, env, after });
  return cutListOf(ctx.services, rows, query.limit, viewKey);
}

/** Returns without a promise on SQLite. bench: vendor/get-by-id */
export function showKey({ services, actor }: Ctx<Vendor>, id: string): MaybePromise<ApiKey> {
  const found = keyById.firstMemoized(services.store.read, { workspace_id: actor.workspace_id, id });
  return thenMaybe(found, (row) => viewKey(requireReadable(actor, row, "key_not_found")));
}

export type KeyEdit = {
  name?: string | null | undefined;
  scopes?: string[] | undefined;
  meta?: Meta | undefined;
  rate_limits?: RateLimit[] | null | undefined;
  expires_at?: number | null | undefined;
};

export function editKey(ctx: Ctx<Vendor>, id: string, edit: KeyEdit): Promise<Warned<ApiKey>> {
  requireFuture(ctx, edit.expires_at);
  const { workspace_id } = ctx.actor;
  return mutate(ctx, { workspace_id }, async (tx) => {
    const row = requireManageable(ctx.actor, await keyById.first(tx, { workspace_id, id }), "key_not_found");
    if (row.revoked_at !== null) throw fail("revoked_not_editable");
    if (extendsQuarantine(row, edit.expires_at)) throw fail("quarantine_not_extendable");
    const project = await liveProject(tx, workspace_id, row.project_id);
    const { expires_at } = edit;
    if (expires_at !== undefined && expires_at !== row.expires_at)
      requireWithinMax(parseKeyPolicy(project.key_policy), row.created_at, expires_at);
    const after = applyEdit(row, edit);
    const differing = changes(auditable(row), auditable(after));
    const metaChanged = row.meta !== after.meta;
    if (!differing && !metaChanged) return unchanged(viewKey(row));
    after.policy_version = await tx.bump(row.project_id);
    await updateKey.run(tx, after);
    const payload = { env: row.env, ...differing, ...(metaChanged && { meta: { changed: true } }) };
    const value = withWarnings(viewKey(after), unknownScopes(project.scope_catalogue, edit.scopes ?? []));
    return { value, events: [{ action: "api_key.updated", target_id: id, payload }] };
  });
}

/** Quarantine shortened the expiry; nothing may extend it again. */
function extendsQuarantine(row: ApiKeyRow, expires_at: number | null | undefined): boolean {
  if (row.quarantined_at === null || expires_at === undefined || row.expires_at === null) return false;
  return expires_at === null || expires_at > row.expires_at;
}

function applyEdit(row: ApiKeyRow, edit: KeyEdit): ApiKeyRow {
  const limits = edit.rate_limits === null ? null : JSON.stringify(edit.rate_limits);
  const { expires_at = row.expires_at } = edit;
  return {
    ...row,
    name: edit.name === undefined ? row.name : edit.name,
    scopes: edit.scopes ? JSON.stringify(edit.scopes) : row.scopes,
    meta: edit.meta ? JSON.stringify(edit.meta) : row.meta,
    rate_limits: edit.rate_limits === undefined ? row.rate_limits : (limits ?? null),
    expires_at,
    // Sent unchanged, an expiry that the project's policy gave stays the policy's.
    requested_expires_at: expires_at === row.expires_at ? row.requested_expires_at : expires_at,
  };
}

function auditable(row: ApiKeyRow) {
  const { name, scopes, rate_limits, expires_at } = viewKey(row);
  return { name, scopes, rate_limits, expires_at };
}

/** A key that this actor may manage. Keys of other tenants do not exist for it. */
function requireManagedKey({ actor }: KeyHolder, row: ApiKeyRow | undefined): ApiKeyRow {
  return requireManageable(actor, row && ownsKey(actor, row) ? row : undefined, "key_not_found");
}

export function rotateKey(ctx: KeyHolder, id: string, overlap_hours: number): Promise<Rotated<ApiKey>> {
  const { workspace_id } = ctx.actor;
  return retryOnHashCollision(() =>
    mutate(ctx, { workspace_id, onConflict: onHashConflict }, async (tx) => {
      const row = requireManagedKey(ctx, await keyById.first(tx, { workspace_id, id }));
      if (row.revoked_at !== null) throw fail("revoked_not_rotatable");
      if (row.disabled_at !== null) throw fail("disabled_not_rotatable"); // or rotating would undo it
      const now = ctx.services.clock.now();
      await requireRotatable(tx, ctx.actor, row, now);
      const { key_prefix, key_policy } = await liveProject(tx, workspace_id, row.project_id);
      const minted = mintKey(key_prefix, row.env);
      const policy_version = await tx.bump(row.project_id);
      const policy = parseKeyPolicy(key_policy);
      const { previous, successor } = rotatedRows(ctx, row, minted, { overlap_hours, policy_version, policy });
      await shortenKey.run(tx, previous);
      await insertKey.run(tx, successor);
      return {
        value: { ...withKey(viewKey(successor), minted.text), previous_key: viewKey(previous) },
        events: [keyRotated(row, successor, overlap_hours)],
      };
    }),
  );
}

export function rotatedRows(
  { services }: Ctx,
  row: ApiKeyRow,
  { stored }: NewCredential,
  { overlap_hours, policy_version, policy }: { overlap_hours: number; policy_version: number; policy: KeyPolicy },
): { previous: ApiKeyRow & { expires_at: number }; successor: ApiKeyRow } {
  const now = services.clock.now();
  const fresh = successorColumns(row, services.newId(), now);
  const expires_at = successorExpiry(policy, now, fresh.expires_at);
  return {
    previous: { ...row, expires_at: overlapEnd(row, now, overlap_hours), policy_version },
    successor: { ...row, ...fresh, ...stored, expires_at, policy_version },
  };
}

export function keyRotated({ id, env }: ApiKeyRow, successor: ApiKeyRow, overlap_hours: number) {
  const payload = { env, successor_id: successor.id, overlap_hours };
  return { action: "api_key.rotated" as const, target_id: id, payload };
}

/** A change of a key, and the policy version that brings it to the nodes. */
export type Revoked = { key: ApiKey; project_id: string; version: number };

/** The version from which on nodes refuse the key. Those that learn of a large deletion do so by a new snapshot. */
async function revokedSince(tx: Tx, { project_id, revoked_cause, policy_version }: ApiKeyRow): Promise<number> {
  if (revoked_cause === "revoked") return policy_version;
  const [head] = await headsByIds(tx, [project_id]);
  return Math.max(policy_version, head?.min_delta_version ?? 0);
}

/** Idempotent: revoking a revoked key changes nothing and writes no audit row. */
export function revokeKey(ctx: KeyHolder, id: string, reason: string | undefined): Promise<Revoked> {
  const { workspace_id } = ctx.actor;
  return mutate(ctx, { workspace_id }, async (tx) => {
    const row = requireManagedKey(ctx, await keyById.first(tx, { workspace_id, id }));
    const { project_id } = row;
    if (row.revoked_at !== null)
      return unchanged({ key: viewKey(row), project_id, version: await revokedSince(tx, row) });
    const now = ctx.services.clock.now();
    const version = await tx.bump(project_id);
    await revokeKeyRow.run(tx, { workspace_id, id, now, reason: reason ?? null, policy_version: version });
    const after = { ...row, revoked_at: now, revoked_reason: reason ?? null };
    const payload = { env: row.env, reason: reason ?? null };
    return {
      value: { key: viewKey(after), project_id, version },
      events: [{ action: "api_key.revoked", target_id: id, payload }],
    };
  });
}
