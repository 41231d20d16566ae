// Suspending a tenant, which can be undone: none of its keys works until it is resumed, in every project and both
// environments, including those minted during the suspension.
import { CAP } from "../../kernel/policy/capabilities.ts";
import { projectsWithKeysOf } from "../../store/queries/cascades.ts";
import { liveTenantById, switchTenant } from "../../store/queries/tenants.ts";
import type { Reader } from "../../store/engine/tx.ts";
import type { Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import type { Event } from "../core/events.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { versionGate } from "../core/version-gate.ts";
import { viewTenant } from "../core/views.ts";
import { countIfMany, countInTransaction, raiseVersions } from "./cascades.ts";
import { liveTenant } from "./tenants.ts";

/** `projects`: those whose nodes learn of it. */
export type Switched = { tenant: ReturnType<typeof viewTenant>; affected_keys: number; projects: string[] };

/** Suspending a suspended tenant changes nothing: the first reason stays. */
export async function suspendTenant(ctx: Ctx<Vendor>, id: string, reason: string | undefined): Promise<Switched> {
  await versionGate.assertKnownEverywhere(ctx.services, "suspended tenants");
  const state = (now: number) => ({ suspended_at: now, suspended_reason: reason ?? null });
  return setState(ctx, id, state, (keys) => ({
    action: "tenant.suspended",
    target_id: id,
    payload: { reason: reason ?? null, keys },
  }));
}

export function resumeTenant(ctx: Ctx<Vendor>, id: string): Promise<Switched> {
  const state = () => ({ suspended_at: null, suspended_reason: null });
  return setState(ctx, id, state, (keys) => ({ action: "tenant.resumed", target_id: id, payload: { keys } }));
}

type State = { suspended_at: number | null; suspended_reason: string | null };

async function setState(
  ctx: Ctx<Vendor>,
  id: string,
  stateAt: (now: number) => State,
  event: (keys: number) => Event,
): Promise<Switched> {
  const { workspace_id } = ctx.actor;
  const tenant = { workspace_id, tenant_id: id };
  const read = async (on: Reader) => {
    const projects = await projectsWithKeysOf(on, { ...tenant, deleted: false });
    return { projects, scopes: projects.map((project_id) => ({ ...tenant, project_id })) };
  };
  const found = await liveTenantById.firstMemoized(ctx.services.store.read, { workspace_id, id });
  const counted = found ? await countIfMany(ctx, (await read(ctx.services.store.read)).scopes) : null;
  return mutate(ctx, { workspace_id }, async (tx) => {
    const row = await liveTenant(tx, workspace_id, id);
    const now = ctx.services.clock.now();
    const state = stateAt(now);
    const { projects, scopes } = await read(tx);
    const affected_keys = await countInTransaction(tx, scopes, counted);
    if ((row.suspended_at === null) === (state.suspended_at === null))
      return unchanged({ tenant: viewTenant(row), affected_keys, projects });
    const resumed_at = state.suspended_at === null ? now : row.resumed_at;
    const after = { ...row, ...state, resumed_at, updated_at: now };
    await switchTenant.run(tx, after);
    await raiseVersions(tx, { ...tenant, projects }, now, CAP.disabled);
    return { value: { tenant: viewTenant(after), affected_keys, projects }, events: [event(affected_keys)] };
  });
}
