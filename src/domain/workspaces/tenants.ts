// Tenants: the customer organisations of the vendor.
import { isDeepStrictEqual } from "node:util";
import { MINUTE_MS } from "../../kernel/durations.ts";
import { fail, failField } from "../../kernel/errors.ts";
import { CAP, NO_CAPS } from "../../kernel/policy/capabilities.ts";
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import { projectsWithKeysOf } from "../../store/queries/cascades.ts";
import { listLive } from "../../store/queries/page.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import type { TenantRow } from "../../store/schema/tables.ts";
import {
  insertTenant,
  liveTenantById,
  markTenantDeleted,
  tenantPageKey,
  updateTenant,
} from "../../store/queries/tenants.ts";
import { addToTenantCount } from "../../store/queries/plans.ts";
import {
  releaseTenantSlot,
  releaseTestTenantSlot,
  reserveTenantSlot,
  reserveTestTenantSlot,
} from "../../store/queries/workspaces.ts";
import { chargedEnvOf, ownerOf, type Vendor } from "../core/actor.ts";
import { addressRuleOf, editedList, storedCidrs, type ListInput } from "../keys/address-rules.ts";
import type { Ctx } from "../core/context.ts";
import { editOf, type Event } from "../core/events.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { recordLimitReached } from "../core/record-limit.ts";
import { versionGate } from "../core/version-gate.ts";
import { listRecords, type ListQuery } from "../core/list.ts";
import { indexTenant, reindexTenant } from "../search/changes.ts";
import { viewTenant, type Meta, type Tenant } from "../core/views.ts";
import { livePlan } from "../plans/plans.ts";
import { needsOfList, needsOfQuotas } from "../nodes/needs.ts";
import { meterCaps, meterOf, storedQuotas, type GivenQuotas } from "../quotas/stored.ts";
import { raiseVersions, revokeKeysOf, withDeletionPlan } from "./cascades.ts";

/** By the environment of the credentials that create tenants: those of test must not use up the places of live. */
export const SLOTS = {
  live: { max: 1_000_000, reserve: reserveTenantSlot, release: releaseTenantSlot },
  test: { max: 250_000, reserve: reserveTestTenantSlot, release: releaseTestTenantSlot },
};

/** Memoized within a transaction: the jobs that share one create tenants but never change them. bench: vendor/mint */
export async function liveTenant(on: Reader, workspace_id: string, id: string): Promise<TenantRow> {
  const row = await liveTenantById.firstMemoized(on, { workspace_id, id });
  if (!row) throw fail("tenant_not_found");
  return row;
}

/** Rules of the tenant's keys, as far as these have none of their own. Null: none of its own. */
type TenantRules = {
  plan_id?: string | null | undefined;
  rate_limits?: RateLimit[] | null | undefined;
  allowed_cidrs?: string[] | undefined;
  ip_mode?: ListInput["ip_mode"];
  quotas?: GivenQuotas;
};
type NewTenant = TenantRules & { external_id: string; name?: string | undefined; meta?: Meta | undefined };

export function newTenantRow({ services, actor }: Ctx<Vendor>, input: NewTenant): TenantRow {
  const now = services.clock.now();
  return {
    id: services.newId(),
    workspace_id: actor.workspace_id,
    external_id: input.external_id,
    name: input.name ?? null,
    meta: JSON.stringify(input.meta ?? {}),
    embed_epoch: 1,
    created_env: chargedEnvOf(actor),
    created_at: now,
    updated_at: now,
    deleted_at: null,
    suspended_at: null,
    suspended_reason: null,
    resumed_at: null,
    plan_id: input.plan_id ?? null,
    rate_limits: input.rate_limits ? JSON.stringify(input.rate_limits) : null,
    allowed_cidrs: storedCidrs(input.allowed_cidrs ?? []),
    ip_mode: input.ip_mode ?? "enforce",
    quotas: storedQuotas(input.quotas ?? null),
  };
}

export function tenantCreated(row: TenantRow): Event {
  const { external_id, name, plan_id, rate_limits, quotas } = viewTenant(row);
  const rules = { ...(plan_id && { plan_id }), ...(rate_limits && { rate_limits }), ...(quotas && { quotas }) };
  return { action: "tenant.created", target_id: row.id, payload: { external_id, name, ...rules } };
}

export async function createTenant(ctx: Ctx<Vendor>, input: NewTenant): Promise<Tenant> {
  const { workspace_id } = ctx.actor;
  const known = requireRulesKnown(ctx, input);
  if (known) await known;
  const row = newTenantRow(ctx, input);
  const onConflict = () => failField("external_id_taken", "external_id", "is already in use");
  return mutate(ctx, { workspace_id, onConflict, batch: true }, async (tx) => {
    if (row.plan_id !== null) await enterPlan(tx, row, row.plan_id);
    await reserveSlot(ctx, tx, row);
    await insertTenant.run(tx, row);
    await indexTenant(tx, row);
    return { value: viewTenant(row), events: [tenantCreated(row)] };
  });
}

/** A process of an earlier release would not limit the keys of such a tenant. Null: nothing to wait for. */
function requireRulesKnown({ services }: Ctx, rules: TenantRules): Promise<unknown> | null {
  return versionGate.assertUsesKnown(services, {
    plans: rules.plan_id || rules.rate_limits,
    "address lists": rules.allowed_cidrs?.length,
    quotas: rules.quotas?.length,
  });
}

async function enterPlan(tx: Tx, { workspace_id }: TenantRow, plan_id: string): Promise<void> {
  await livePlan(tx, workspace_id, plan_id);
  await addToTenantCount.run(tx, { workspace_id, id: plan_id, more: 1 });
}

async function leavePlan(tx: Tx, { workspace_id, plan_id: id }: TenantRow): Promise<void> {
  if (id !== null) await addToTenantCount.run(tx, { workspace_id, id, more: -1 });
}

export async function reserveSlot(ctx: Ctx, tx: Tx, { workspace_id, created_env }: TenantRow): Promise<void> {
  const { max, reserve } = SLOTS[created_env];
  if ((await reserve.run(tx, { id: workspace_id, max })) === 0) throw recordLimitReached(ctx);
}

/** `ids`: the only ones to list. */
export function listTenants(ctx: Ctx<Vendor>, query: ListQuery & { ids?: readonly string[] | undefined }) {
  return listRecords(ctx, query, {
    find: tenantPageKey,
    rows: (on, page) => listLive(on, "tenants", { ...page, ids: query.ids }),
    viewer: () => viewTenant,
  });
}

export async function showTenant(ctx: Ctx<Vendor>, id: string) {
  return viewTenant(await liveTenant(ctx.services.store.read, ctx.actor.workspace_id, id));
}

type TenantEdit = TenantRules & { name?: string | null | undefined; meta?: Meta | undefined };

/** `projects`: those whose nodes learn of it. `needs`: without which nodes do not get the tenant's keys. */
type TenantChange = { tenant: Tenant; projects: string[]; needs: number };

const REACHING_KEYS = ["plan_id", "rate_limits", "allowed_cidrs", "ip_mode", "quotas"] as const;

export async function editTenant(ctx: Ctx<Vendor>, id: string, edit: TenantEdit): Promise<TenantChange> {
  await requireRulesKnown(ctx, edit);
  const change = await storeEdit(ctx, id, edit);
  if (edit.plan_id !== undefined || edit.quotas !== undefined)
    ctx.services.quotas.definitions.changed(ctx.actor.workspace_id);
  return change;
}

function storeEdit(ctx: Ctx<Vendor>, id: string, edit: TenantEdit): Promise<TenantChange> {
  const { workspace_id } = ctx.actor;
  return mutate(ctx, { workspace_id }, async (tx) => {
    const row = await liveTenant(tx, workspace_id, id);
    const now = ctx.services.clock.now();
    const after = applyEdit(row, edit, now);
    const change = editOf(row, after, auditable);
    const reachesKeys = REACHING_KEYS.some((name) => edit[name] !== undefined);
    const tenant = { workspace_id, tenant_id: id };
    const projects = reachesKeys ? await projectsWithKeysOf(tx, { ...tenant, deleted: false }) : [];
    const [before, then] = [await quotasOf(tx, row), await quotasOf(tx, after)];
    const needs = row.suspended_at === null ? needsOfList(after, after) | needsOfQuotas(then) : NO_CAPS;
    if (!change) return unchanged({ tenant: viewTenant(row), projects, needs });
    if (after.plan_id !== row.plan_id) {
      if (after.plan_id !== null) await enterPlan(tx, row, after.plan_id);
      await leavePlan(tx, row);
    }
    await updateTenant.run(tx, after);
    await reindexTenant(tx, row, after);
    const { differing, payload } = change;
    const changesList = !isDeepStrictEqual(addressRuleOf(row, row), addressRuleOf(after, after));
    const isOther = changesList || meterOf(before) !== meterOf(then);
    if (isOther || (differing && ("plan_id" in differing || "rate_limits" in differing)))
      await raiseVersions(tx, { ...tenant, projects }, now, (changesList ? CAP.cidr : NO_CAPS) | meterCaps(then));
    const value = { tenant: viewTenant(after), projects, needs };
    return { value, events: [{ action: "tenant.updated", target_id: id, payload }] };
  });
}

/** Its own, or those of its plan. */
async function quotasOf(tx: Tx, { workspace_id, plan_id, quotas }: TenantRow): Promise<string | null> {
  return quotas ?? (plan_id === null ? null : (await livePlan(tx, workspace_id, plan_id)).quotas);
}

function applyEdit(row: TenantRow, edit: TenantEdit, now: number): TenantRow {
  const { rate_limits: limits } = edit;
  return {
    ...row,
    name: edit.name === undefined ? row.name : edit.name,
    meta: edit.meta ? JSON.stringify(edit.meta) : row.meta,
    plan_id: edit.plan_id === undefined ? row.plan_id : edit.plan_id,
    rate_limits: limits === undefined ? row.rate_limits : limits && JSON.stringify(limits),
    ...editedList(row, edit),
    quotas: edit.quotas === undefined ? row.quotas : storedQuotas(edit.quotas),
    updated_at: now,
  };
}

function auditable(row: TenantRow) {
  const { name, plan_id = null, rate_limits = null, allowed_cidrs, ip_mode, quotas = null } = viewTenant(row);
  return { name, plan_id, rate_limits, allowed_cidrs, ip_mode, quotas };
}

/** While nothing more may be stored: every call adds a row to the audit log, whether or not there is a token to end. */
const EMBED_REVOCATIONS = { name: "embed-revocations", limit: 60, windowMs: MINUTE_MS };

/** Invalidates all embed tokens of the tenant issued so far, from their next request on. */
export function revokeEmbedTokens(ctx: Ctx<Vendor>, id: string) {
  const { workspace_id } = ctx.actor;
  const { writtenBytes, throttles } = ctx.services;
  const owner = ownerOf(ctx.actor);
  if (!writtenBytes.hasRoom(owner)) throttles.take(EMBED_REVOCATIONS, owner.id, owner);
  return mutate(ctx, { workspace_id }, async (tx) => {
    const row = await liveTenant(tx, workspace_id, id);
    const after = { ...row, embed_epoch: row.embed_epoch + 1, updated_at: ctx.services.clock.now() };
    await updateTenant.run(tx, after);
    const { embed_epoch } = after;
    return {
      value: { object: "tenant" as const, id, embed_epoch, embed_tokens_revoked: true as const },
      events: [{ action: "tenant.embed_tokens_revoked", target_id: id, payload: { embed_epoch } }],
    };
  });
}

export async function deleteTenant(ctx: Ctx<Vendor>, id: string) {
  const { workspace_id } = ctx.actor;
  const deletion = { id, workspace_id, cause: "tenant_deleted" } as const;
  const found = await liveTenantById.firstMemoized(ctx.services.store.read, { workspace_id, id });
  return withDeletionPlan(ctx, deletion, found !== undefined, (plan) =>
    mutate(ctx, { workspace_id }, async (tx) => {
      const row = await liveTenant(tx, workspace_id, id);
      const now = ctx.services.clock.now();
      const revoked_keys = await revokeKeysOf(tx, { ...deletion, ...plan, now });
      await markTenantDeleted.run(tx, { workspace_id, id, now });
      await leavePlan(tx, row);
      await SLOTS[row.created_env].release.run(tx, { id: workspace_id });
      return {
        value: { object: "tenant" as const, id, deleted: true as const, revoked_keys },
        events: [{ action: "tenant.deleted", target_id: id, payload: { revoked_keys } }],
      };
    }),
  );
}
