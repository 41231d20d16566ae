// API keys, which tenants present to the vendor's API. The text of a key is returned once, at creation or rotation.
import { fail } from "../../kernel/errors.ts";
import type { Env } from "../../kernel/credentials.ts";
import { CAP, NO_CAPS } from "../../kernel/policy/capabilities.ts";
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import { insertKey, insertMeteredKey, keyById, revokeKeyRow } from "../../store/queries/keys.ts";
import type { ListFilter } from "../../store/queries/key-list.ts";
import { headsByIds } from "../../store/queries/policy.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { ApiKeyRow, PlanRow, ProjectRow, TenantRow } from "../../store/schema/tables.ts";
import { addressRuleOf, newList, type ListInput } from "./address-rules.ts";
import { projectsOf, type ApiKeyActor, type EmbedActor, type Vendor } from "../core/actor.ts";
import { positionAfter, requirePlaceable, requireManageable, requireReadable, visibleEnv } from "../core/env-access.ts";
import { requireFuture } from "../core/clock.ts";
import type { Ctx } from "../core/context.ts";
import { ownsKey, requireRoomForKey } from "../embed/rules.ts";
import type { Event } from "../core/events.ts";
import { mintKey, onHashConflict, retryOnHashCollision, type NewCredential } from "../auth/new-credentials.ts";
import { listKeyPage } from "./key-list.ts";
import { withSuccessors } from "./successors.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { initialExpiry, requestedExpiry } from "../key-policy/key-policy.ts";
import { needsToServe, startReadingNodes, withNodeWarnings } from "../nodes/needs.ts";
import type { KeyChange } from "../nodes/propagation.ts";
import { unknownScopes } from "./scope-catalogue.ts";
import { versionGate } from "../core/version-gate.ts";
import { withWarnings, type Warned } from "../core/warnings.ts";
import { takeKeyPlace } from "../plans/key-cap.ts";
import { livePlan } from "../plans/plans.ts";
import { keyPolicyOf, requireGrantedByPlan, requireWithinCeiling } from "../plans/resolution.ts";
import { meterCaps, storedQuotas, type GivenQuotas } from "../quotas/stored.ts";
import { liveProject } from "../workspaces/projects.ts";
import { liveTenant } from "../workspaces/tenants.ts";
import { viewKey, withKey, type ApiKey, type Meta, type WithKey } from "../core/views.ts";

/** What a key may be given when it is created, and later. */
export type KeyFields = {
  scopes?: string[] | undefined;
  meta?: Meta | undefined;
  rate_limits?: RateLimit[] | null | undefined;
  expires_at?: number | null | undefined;
  quotas?: GivenQuotas;
} & ListInput;

/** `expires_at` null: none. Absent: what the project's policy says. */
type NewKey = KeyFields & {
  project_id: string;
  tenant_id: string;
  env: Env;
  name?: string | undefined;
};

type KeyManager = Ctx<Vendor | EmbedActor>;
/** Its holder may rotate and revoke a key too. */
export type KeyHolder = Ctx<Vendor | EmbedActor | ApiKeyActor>;

export async function createKey(ctx: KeyManager, input: NewKey): Promise<Warned<WithKey<ApiKey>>> {
  requirePlaceable(ctx.actor, ctx.services.clock, input);
  const { actor } = ctx;
  const { workspace_id } = actor;
  const embed = actor.kind === "embed_token" ? actor : null;
  if (input.allowed_cidrs?.length) await versionGate.assertKnownEverywhere(ctx.services, "address lists");
  if (input.quotas?.length) await versionGate.assertKnownEverywhere(ctx.services, "quotas");
  let reading: ReturnType<typeof startReadingNodes> | undefined;
  const { created, needs } = await retryOnHashCollision(() =>
    mutate(ctx, { workspace_id, onConflict: onHashConflict, batch: !embed }, async (tx) => {
      requireFuture(ctx.services.clock, input.expires_at);
      const [project, tenant] = await Promise.all([
        liveProject(tx, workspace_id, input.project_id),
        liveTenant(tx, workspace_id, input.tenant_id),
      ]);
      if (embed && tenant.suspended_at !== null) throw fail("tenant_is_suspended");
      if (embed) await requireRoomForKey(tx, embed, ctx.services.clock.now());
      const plan = tenant.plan_id === null ? null : await requireAllowedByPlan(ctx, tx, tenant.plan_id, input);
      const uses = featuresOf(input, tenant) | meterCaps(tenant.quotas ?? plan?.quotas);
      const policy_version = await tx.bump(project.id, { uses });
      const minted = mintKey(project.key_prefix, input.env);
      const row = newKeyRow(ctx, input, minted.stored, { project, tenant, plan, policy_version });
      await (row.quotas === null ? insertKey : insertMeteredKey).insertDeferred(tx, row); // bench: vendor/mint
      const scopes = input.scopes ?? [];
      const warnings = embed ? [] : unknownScopes(project.scope_catalogue, scopes);
      const created = withWarnings(withKey(viewKey(row), minted.text), warnings);
      const needs = needsToServe(row, tenant, plan);
      if (!embed && needs !== NO_CAPS) reading = startReadingNodes(ctx, input);
      return { value: { created, needs }, events: [keyCreated(row, scopes)] };
    }),
  );
  return embed ? created : withNodeWarnings(ctx, created, needs, reading);
}

/** What the project uses with the new key. */
function featuresOf(key: NewKey, tenant: TenantRow): number {
  const isListed = addressRuleOf(newList(key), tenant) !== null;
  const metered = key.quotas ? meterCaps(storedQuotas(key.quotas)) : NO_CAPS;
  return (tenant.suspended_at === null ? NO_CAPS : CAP.disabled) | (isListed ? CAP.cidr : NO_CAPS) | metered;
}

/** Call it last before the first write: it counts the key. */
async function requireAllowedByPlan(ctx: KeyManager, tx: Tx, plan_id: string, key: NewKey): Promise<PlanRow> {
  const { actor, services } = ctx;
  const { workspace_id } = actor;
  const plan = await livePlan(tx, workspace_id, plan_id);
  if (actor.kind === "embed_token") requireGrantedByPlan(plan, key.scopes ?? []);
  else requireWithinCeiling(plan, key.scopes ?? []);
  await takeKeyPlace(tx, plan, { ...key, workspace_id }, services.clock.now());
  return plan;
}

type KeyPlacement = {
  project: Pick<ProjectRow, "id" | "key_policy">;
  tenant: { id: string };
  plan: PlanRow | null;
  policy_version: number;
};

export function newKeyRow(
  ctx: KeyManager,
  key: NewKey,
  stored: NewCredential["stored"],
  placement: KeyPlacement,
): ApiKeyRow {
  const now = ctx.services.clock.now();
  return {
    id: ctx.services.newId(),
    workspace_id: ctx.actor.workspace_id,
    project_id: placement.project.id,
    tenant_id: placement.tenant.id,
    env: key.env,
    lookup_hash: stored.lookup_hash,
    display_prefix: stored.display_prefix,
    name: key.name ?? null,
    scopes: JSON.stringify(key.scopes ?? []),
    meta: JSON.stringify(key.meta ?? {}),
    rate_limits: key.rate_limits ? JSON.stringify(key.rate_limits) : null,
    expires_at: initialExpiry(keyPolicyOf(placement.project, placement.plan), now, key.expires_at),
    requested_expires_at: requestedExpiry(key.expires_at),
    revoked_at: null,
    revoked_reason: null,
    revoked_cause: null,
    quarantined_at: null,
    quarantine_reason: null,
    rotated_from: null,
    created_at: now,
    last_used_at: null,
    policy_version: placement.policy_version,
    disabled_at: null,
    disabled_reason: null,
    enabled_at: null,
    ...newList(key),
    quotas: key.quotas ? storedQuotas(key.quotas) : null,
    lineage_id: null,
  };
}

export function keyCreated(row: ApiKeyRow, scopes: string[]): Event {
  const { env, display_prefix, name } = row;
  const payload = { env, display_prefix, name, scopes };
  return { action: "api_key.created", target_id: row.id, payload };
}

/** `ids`: the only keys to list. */
type KeyQuery = Omit<ListFilter, "workspace_id" | "projects" | "after"> & { after?: string | undefined };

export async function listKeys(ctx: Ctx<Vendor>, query: KeyQuery) {
  const { read } = ctx.services.store;
  const { workspace_id } = ctx.actor;
  const env = visibleEnv(ctx.actor, query.env);
  const after = query.after
    ? positionAfter(ctx.actor, await keyById.first(read, { workspace_id, id: query.after }))
    : null;
  const projects = projectsOf(ctx.actor);
  const filter = { ...query, workspace_id, projects, env, after };
  return listKeyPage(ctx, filter, withSuccessors(ctx, "api_keys", viewKey));
}

export async function showKey({ services, actor }: Ctx<Vendor>, id: string): Promise<ApiKey> {
  const row = await keyById.firstMemoized(services.store.read, { workspace_id: actor.workspace_id, id });
  return viewKey(requireReadable(actor, row, "key_not_found"));
}

/** A key that this actor may manage. Keys of other tenants do not exist for it. */
export function requireManagedKey({ actor }: KeyHolder, row: ApiKeyRow | undefined): ApiKeyRow {
  return requireManageable(actor, row && ownsKey(actor, row) ? row : undefined, "key_not_found");
}

/** The version from which on nodes refuse the key. Those that learn of a large deletion do so by a new snapshot. */
async function revokedSince(tx: Tx, { project_id, revoked_cause, policy_version }: ApiKeyRow): Promise<number> {
  if (revoked_cause === "revoked") return policy_version;
  const [head] = await headsByIds(tx, [project_id]);
  return Math.max(policy_version, head?.min_delta_version ?? 0);
}

/** Idempotent: revoking a revoked key changes nothing and writes no audit row. */
export function revokeKey(ctx: KeyHolder, id: string, reason: string | undefined): Promise<KeyChange> {
  const { workspace_id } = ctx.actor;
  return mutate(ctx, { workspace_id }, async (tx) => {
    const row = requireManagedKey(ctx, await keyById.first(tx, { workspace_id, id }));
    const { project_id } = row;
    if (row.revoked_at !== null)
      return unchanged({ key: viewKey(row), project_id, version: await revokedSince(tx, row), needs: NO_CAPS });
    const now = ctx.services.clock.now();
    const version = await tx.bump(project_id);
    const end = { revoked_at: now, revoked_reason: reason ?? null, revoked_cause: "revoked" } as const;
    const after = { ...row, ...end, policy_version: version };
    await revokeKeyRow.run(tx, after);
    const payload = { env: row.env, reason: reason ?? null };
    return {
      value: { key: viewKey(after), project_id, version, needs: NO_CAPS },
      events: [{ action: "api_key.revoked", target_id: id, payload }],
    };
  });
}
