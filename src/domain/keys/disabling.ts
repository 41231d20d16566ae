// Disabling an API key, which can be undone: the policy feed removes it from every node until it is enabled again.
import { fail } from "../../kernel/errors.ts";
import { CAP } from "../../kernel/policy/capabilities.ts";
import { keyById, switchKey } from "../../store/queries/keys.ts";
import type { ApiKeyRow } from "../../store/schema/tables.ts";
import type { Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { requireManageable } from "../core/env-access.ts";
import type { Event } from "../core/events.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { versionGate } from "../core/version-gate.ts";
import { viewKey } from "../core/views.ts";
import { planOfKey } from "../plans/plans.ts";
import { needsToServe } from "../nodes/needs.ts";
import type { KeyChange } from "../nodes/propagation.ts";
import { liveTenant } from "../workspaces/tenants.ts";

/** Disabling a disabled key changes nothing: the first reason stays. */
export async function disableKey(ctx: Ctx<Vendor>, id: string, reason: string | undefined): Promise<KeyChange> {
  await versionGate.assertKnownEverywhere(ctx.services, "disabled keys");
  const state = { disabled_at: ctx.services.clock.now(), disabled_reason: reason ?? null, enabled_at: null };
  return setState(ctx, id, state, (env) => ({
    action: "api_key.disabled",
    target_id: id,
    payload: { env, reason: reason ?? null },
  }));
}

/** Touches neither expiry nor quarantine. */
export function enableKey(ctx: Ctx<Vendor>, id: string): Promise<KeyChange> {
  const state = { disabled_at: null, disabled_reason: null, enabled_at: ctx.services.clock.now() };
  return setState(ctx, id, state, (env) => ({ action: "api_key.enabled", target_id: id, payload: { env } }));
}

type State = Pick<ApiKeyRow, "disabled_at" | "disabled_reason" | "enabled_at">;

function setState(ctx: Ctx<Vendor>, id: string, state: State, event: (env: string) => Event): Promise<KeyChange> {
  const { workspace_id } = ctx.actor;
  return mutate(ctx, { workspace_id }, async (tx) => {
    const row = requireManageable(ctx.actor, await keyById.first(tx, { workspace_id, id }), "key_not_found");
    const { project_id } = row;
    if (row.revoked_at !== null) throw fail("revoked_not_editable");
    const tenant = await liveTenant(tx, workspace_id, row.tenant_id);
    const needs = needsToServe({ ...row, ...state }, tenant, await planOfKey(tx, row));
    if ((row.disabled_at === null) === (state.disabled_at === null))
      return unchanged({ key: viewKey(row), project_id, version: row.policy_version, needs });
    const after = { ...row, ...state, policy_version: await tx.bump(project_id, { uses: CAP.disabled }) };
    await switchKey.run(tx, after);
    const value = { key: viewKey(after), project_id, version: after.policy_version, needs };
    return { value, events: [event(row.env)] };
  });
}
