// Changes of an API key by its vendor.
import { fail } from "../../kernel/errors.ts";
import { CAP, NO_CAPS } from "../../kernel/policy/capabilities.ts";
import type { Tx } from "../../store/engine/tx.ts";
import { keyById, newestSuccessor, updateKey } from "../../store/queries/keys.ts";
import type { ApiKeyRow } from "../../store/schema/tables.ts";
import type { Vendor } from "../core/actor.ts";
import { addressRuleOf, editedList } from "./address-rules.ts";
import { requireFuture } from "../core/clock.ts";
import type { Ctx } from "../core/context.ts";
import { requireManageable } from "../core/env-access.ts";
import { editOf } from "../core/events.ts";
import { requestedExpiry, requireWithinMax } from "../key-policy/key-policy.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { unknownScopes } from "./scope-catalogue.ts";
import { versionGate } from "../core/version-gate.ts";
import { viewKey, type ApiKey } from "../core/views.ts";
import { withWarnings, type Warned } from "../core/warnings.ts";
import { takeKeyPlace } from "../plans/key-cap.ts";
import { planOfKey } from "../plans/plans.ts";
import { keyPolicyOf, requireWithinCeiling } from "../plans/resolution.ts";
import { needsToServe, withNodeWarnings } from "../nodes/needs.ts";
import type { KeyChange } from "../nodes/propagation.ts";
import { meterCaps, reachesNodes, storedQuotas } from "../quotas/stored.ts";
import { dropOldTerms } from "../search/changes.ts";
import { liveProject } from "../workspaces/projects.ts";
import { liveTenant } from "../workspaces/tenants.ts";
import type { KeyFields } from "./keys.ts";

type KeyEdit = KeyFields & { name?: string | null | undefined };

/** The key with warnings. */
type Edited = KeyChange & { key: Warned<ApiKey> };

export async function editKey(ctx: Ctx<Vendor>, id: string, edit: KeyEdit): Promise<Edited> {
  const { allowed_cidrs, quotas } = edit;
  await versionGate.assertUsesKnown(ctx.services, { "address lists": allowed_cidrs?.length, quotas: quotas?.length });
  const { workspace_id } = ctx.actor;
  const edited = await mutate(ctx, { workspace_id }, async (tx) => {
    requireFuture(ctx.services.clock, edit.expires_at);
    const row = requireManageable(ctx.actor, await keyById.first(tx, { workspace_id, id }), "key_not_found");
    if (row.revoked_at !== null) throw fail("revoked_not_editable");
    if (extendsQuarantine(row, edit.expires_at)) throw fail("quarantine_not_extendable");
    const project = await liveProject(tx, workspace_id, row.project_id);
    const plan = await planOfKey(tx, row);
    const { expires_at } = edit;
    if (expires_at !== undefined && expires_at !== row.expires_at)
      requireWithinMax(keyPolicyOf(project, plan), row.created_at, expires_at);
    requireWithinCeiling(plan, edit.scopes ?? [], JSON.parse(row.scopes) as string[]);
    const tenant = await liveTenant(tx, workspace_id, row.tenant_id);
    const after = applyEdit(row, edit, await choosesLife(tx, row, edit.expires_at));
    const now = ctx.services.clock.now();
    if (hasExpired(row, now) && !hasExpired(after, now)) await takeKeyPlace(tx, plan, row, now);
    const change = editOf(row, after, auditable);
    const needs = needsToServe(after, tenant, plan);
    const { project_id, policy_version: version } = row;
    const warnings = unknownScopes(project.scope_catalogue, edit.scopes ?? []);
    if (!change) return unchanged({ key: withWarnings(viewKey(row), warnings), project_id, version, needs });
    const isListed = addressRuleOf(after, tenant) !== null;
    const uses = (isListed ? CAP.cidr : NO_CAPS) | meterCaps(after.quotas);
    if (change.metaChanged || reachesNodes(change.differing, row.quotas, after.quotas))
      after.policy_version = await tx.bump(project_id, { uses });
    await updateKey.run(tx, after);
    await dropOldTerms(tx, workspace_id, row, after);
    const payload = { env: row.env, ...change.payload };
    const key = withWarnings(viewKey(after), warnings);
    return {
      value: { key, project_id, version: after.policy_version, needs },
      events: [{ action: "api_key.updated", target_id: id, payload }],
    };
  });
  if (edit.quotas !== undefined) ctx.services.quotas.definitions.changed(ctx.actor.workspace_id);
  return { ...edited, key: await withNodeWarnings(ctx, edited.key, edited.needs) };
}

const hasExpired = ({ expires_at }: ApiKeyRow, now: number): boolean => expires_at !== null && expires_at <= now;

/** Quarantine shortened the expiry; nothing may extend it again. */
function extendsQuarantine(row: ApiKeyRow, expires_at: number | null | undefined): boolean {
  if (row.quarantined_at === null || expires_at === undefined || row.expires_at === null) return false;
  return expires_at === null || expires_at > row.expires_at;
}

/**
 * Whether an expiry is the one that successors get too. Sent unchanged, an expiry that the project's policy gave stays
 * the policy's. One for a leaked or rotated key says only when that key ends.
 */
async function choosesLife(tx: Tx, row: ApiKeyRow, expires_at: number | null | undefined): Promise<boolean> {
  if (expires_at === undefined || expires_at === row.expires_at) return false;
  return row.quarantined_at === null && !(await newestSuccessor.first(tx, row));
}

function applyEdit(row: ApiKeyRow, edit: KeyEdit, isLifeChosen: boolean): ApiKeyRow {
  const limits = edit.rate_limits === null ? null : JSON.stringify(edit.rate_limits);
  const { expires_at = row.expires_at } = edit;
  return {
    ...row,
    name: edit.name === undefined ? row.name : edit.name,
    scopes: edit.scopes ? JSON.stringify(edit.scopes) : row.scopes,
    meta: edit.meta ? JSON.stringify(edit.meta) : row.meta,
    rate_limits: edit.rate_limits === undefined ? row.rate_limits : (limits ?? null),
    ...editedList(row, edit),
    quotas: edit.quotas === undefined ? row.quotas : storedQuotas(edit.quotas),
    expires_at,
    requested_expires_at: isLifeChosen ? requestedExpiry(expires_at) : row.requested_expires_at,
  };
}

function auditable(row: ApiKeyRow) {
  const { name, scopes, rate_limits, expires_at, allowed_cidrs, ip_mode, quotas = null } = viewKey(row);
  return { name, scopes, rate_limits, expires_at, allowed_cidrs, ip_mode, quotas };
}
