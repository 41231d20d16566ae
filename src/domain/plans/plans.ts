// Plans: limits, a ceiling on scopes and bounds on keys that tenants share. Changing one changes no tenant and no key:
// the policy feed resolves them (resolution.ts), and nodes take a new snapshot.
import { fail, failField } from "../../kernel/errors.ts";
import type { QuotaInput } from "../../kernel/quotas/quota.ts";
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import {
  countPlans,
  insertPlan,
  livePlanById,
  markPlanDeleted,
  planOfTenant,
  planPageKey,
  projectsWithKeys,
  updatePlan,
} from "../../store/queries/plans.ts";
import { listLive } from "../../store/queries/page.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import type { PlanRow } from "../../store/schema/tables.ts";
import type { Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { editOf } from "../core/events.ts";
import { listRecords, type ListQuery } from "../core/list.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { recordLimitReached } from "../core/record-limit.ts";
import { versionGate } from "../core/version-gate.ts";
import { meterCaps, meterOf, storedQuotas } from "../quotas/stored.ts";
import { viewPlan, type Meta, type Plan } from "../core/views.ts";

/** Maximum number of plans in a workspace. */
export const PLANS_MAX = 200;

type PlanFields = {
  rate_limits?: RateLimit[] | null | undefined;
  scopes?: string[] | null | undefined;
  max_keys?: number | null | undefined;
  key_ttl_days?: number | null | undefined;
  quotas?: readonly QuotaInput[] | undefined;
  meta?: Meta | undefined;
};
type NewPlan = PlanFields & { name: string; slug: string };
type PlanEdit = PlanFields & { name?: string | undefined; slug?: string | undefined };

/** Memoized within a transaction: the jobs that share one only count the tenants of plans. */
export async function livePlan(on: Reader, workspace_id: string, id: string): Promise<PlanRow> {
  const row = await livePlanById.firstMemoized(on, { workspace_id, id });
  if (!row) throw fail("plan_not_found");
  return row;
}

/** The plan of a key's tenant. */
export async function planOfKey(
  on: Reader,
  { workspace_id, tenant_id }: { workspace_id: string; tenant_id: string },
): Promise<PlanRow | null> {
  return (await planOfTenant.first(on, { workspace_id, tenant_id })) ?? null;
}

const slugTaken = () => failField("slug_taken", "slug", "is already in use");

export async function createPlan(ctx: Ctx<Vendor>, input: NewPlan): Promise<Plan> {
  await versionGate.assertUsesKnown(ctx.services, { plans: true, quotas: input.quotas?.length });
  const { workspace_id } = ctx.actor;
  const row = newPlanRow(ctx, input);
  return mutate(ctx, { workspace_id, onConflict: slugTaken }, async (tx) => {
    if ((await countPlans.count(tx, { workspace_id })) >= PLANS_MAX) throw recordLimitReached(ctx);
    await insertPlan.run(tx, row);
    const payload = auditable(row);
    return { value: viewPlan(row), events: [{ action: "plan.created", target_id: row.id, payload }] };
  });
}

function newPlanRow({ services, actor }: Ctx<Vendor>, { name, slug, ...fields }: NewPlan): PlanRow {
  const now = services.clock.now();
  const none = { rate_limits: null, scopes: null, max_keys: null, key_ttl_days: null, quotas: null, meta: "{}" };
  return {
    ...none,
    ...columnsOf(fields),
    id: services.newId(),
    workspace_id: actor.workspace_id,
    name,
    slug,
    tenant_count: 0,
    created_at: now,
    updated_at: now,
    deleted_at: null,
  };
}

/** The columns of the fields that are given. */
function columnsOf({ rate_limits, scopes, max_keys, key_ttl_days, quotas, meta }: PlanFields): Partial<PlanRow> {
  const json = (value: unknown): string | null => (value === null ? null : JSON.stringify(value));
  return {
    ...(rate_limits !== undefined && { rate_limits: json(rate_limits) }),
    ...(scopes !== undefined && { scopes: json(scopes) }),
    ...(max_keys !== undefined && { max_keys }),
    ...(key_ttl_days !== undefined && { key_ttl_days }),
    ...(quotas !== undefined && { quotas: storedQuotas(quotas) }),
    ...(meta !== undefined && { meta: JSON.stringify(meta) }),
  };
}

function auditable(row: PlanRow) {
  const { name, slug, rate_limits, scopes, max_keys, key_ttl_days, quotas } = viewPlan(row);
  return { name, slug, rate_limits, scopes, max_keys, key_ttl_days, quotas };
}

export function listPlans(ctx: Ctx<Vendor>, query: ListQuery) {
  return listRecords(ctx, query, {
    find: planPageKey,
    rows: (on, page) => listLive(on, "plans", page),
    viewer: () => viewPlan,
    max: PLANS_MAX,
    bytesMax: query.limit === undefined ? Infinity : undefined, // clients of 0.1 read one page
  });
}

export async function showPlan({ services, actor }: Ctx<Vendor>, id: string): Promise<Plan> {
  return viewPlan(await livePlan(services.store.read, actor.workspace_id, id));
}

/** `projects`: those whose nodes learn of it. */
type PlanChange = { plan: Plan; projects: string[] };

export async function editPlan(ctx: Ctx<Vendor>, id: string, edit: PlanEdit): Promise<PlanChange> {
  await versionGate.assertUsesKnown(ctx.services, { plans: true, quotas: edit.quotas?.length });
  const change = await storeEdit(ctx, id, edit);
  if (edit.quotas !== undefined) ctx.services.quotas.definitions.changed(ctx.actor.workspace_id);
  return change;
}

function storeEdit(ctx: Ctx<Vendor>, id: string, edit: PlanEdit): Promise<PlanChange> {
  const { workspace_id } = ctx.actor;
  const { name, slug, ...fields } = edit;
  return mutate(ctx, { workspace_id, onConflict: slugTaken }, async (tx) => {
    const row = await livePlan(tx, workspace_id, id);
    const after = { ...row, name: name ?? row.name, slug: slug ?? row.slug, ...columnsOf(fields) };
    const change = editOf(row, after, auditable);
    const projects = await projectsOn(tx, row);
    if (!change) return unchanged({ plan: viewPlan(row), projects });
    after.updated_at = ctx.services.clock.now();
    await updatePlan.run(tx, after);
    // One version a project however many tenants there are: each node takes a new snapshot.
    const isOtherMeter = meterOf(row.quotas) !== meterOf(after.quotas);
    const { differing, payload } = change;
    const reachesNodes = differing && ("rate_limits" in differing || "scopes" in differing || isOtherMeter);
    const uses = meterCaps(after.quotas);
    if (reachesNodes) for (const project of projects) await tx.bump(project, { forgetDeltas: true, uses });
    return { value: { plan: viewPlan(after), projects }, events: [{ action: "plan.updated", target_id: id, payload }] };
  });
}

/** The projects that may have keys of the plan's tenants. */
async function projectsOn(tx: Tx, { workspace_id, tenant_count }: PlanRow): Promise<string[]> {
  if (tenant_count === 0) return [];
  return (await projectsWithKeys.all(tx, { workspace_id })).map(({ id }) => id);
}

export function deletePlan(ctx: Ctx<Vendor>, id: string) {
  const { workspace_id } = ctx.actor;
  return mutate(ctx, { workspace_id }, async (tx) => {
    const { name, slug, tenant_count } = await livePlan(tx, workspace_id, id);
    if (tenant_count > 0) throw fail("plan_in_use");
    await markPlanDeleted.run(tx, { workspace_id, id, now: ctx.services.clock.now() });
    return {
      value: { object: "plan" as const, id, deleted: true as const },
      events: [{ action: "plan.deleted", target_id: id, payload: { name, slug } }],
    };
  });
}
