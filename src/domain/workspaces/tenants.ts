// Tenants: the customer organisations of the vendor.
import { fail, failField } from "../../kernel/errors.ts";
import { LIST_MAX, type PageKey } from "../../store/queries/page.ts";
import type { Reader, Tx } from "../../store/engine/statement.ts";
import type { TenantRow } from "../../store/schema/tables.ts";
import {
  insertTenant,
  listTenants as listTenantRows,
  liveTenantById,
  markTenantDeleted,
  tenantPageKey,
  updateTenant,
} from "../../store/queries/tenants.ts";
import {
  releaseTenantSlot,
  releaseTestTenantSlot,
  reserveTenantSlot,
  reserveTestTenantSlot,
} from "../../store/queries/workspaces.ts";
import { chargedEnvOf, type Vendor } from "../core/actor.ts";
import { positionAfter } from "../core/env-access.ts";
import type { Ctx } from "../core/context.ts";
import { changes, type Event } from "../core/events.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { quotaReached } from "../core/quota.ts";
import { readList } from "../core/list.ts";
import { viewTenant, type Meta } from "../core/views.ts";
import { mayDefer, revokeKeysOf } from "./cascades.ts";

/** By the environment of the credentials that create tenants: those of test must not use up the places of live. */
const SLOTS = {
  live: { max: 1_000_000, reserve: reserveTenantSlot, release: releaseTenantSlot },
  test: { max: 250_000, reserve: reserveTestTenantSlot, release: releaseTestTenantSlot },
};

/** Memoized within a transaction: the jobs that share one create tenants but never change them. bench: vendor/mint */
export async function liveTenant(on: Reader, workspace_id: string, id: string): Promise<TenantRow> {
  const row = await liveTenantById.firstMemoized(on, { workspace_id, id });
  if (!row) throw fail("tenant_not_found");
  return row;
}

export type NewTenant = { external_id: string; name?: string | undefined; meta?: Meta | undefined };

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
  };
}

export function tenantCreated({ id, external_id, name }: TenantRow): Event {
  return { action: "tenant.created", target_id: id, payload: { external_id, name } };
}

export function createTenant(ctx: Ctx<Vendor>, input: NewTenant) {
  const { workspace_id } = ctx.actor;
  const row = newTenantRow(ctx, input);
  const onConflict = () => failField("external_id_taken", "external_id", "is already in use");
  return mutate(ctx, { workspace_id, onConflict, batch: true }, async (tx) => {
    await reserveSlot(ctx, tx, row);
    await insertTenant.run(tx, row);
    return { value: viewTenant(row), events: [tenantCreated(row)] };
  });
}

export async function reserveSlot(ctx: Ctx, tx: Tx, { workspace_id, created_env }: TenantRow): Promise<void> {
  const { max, reserve } = SLOTS[created_env];
  if ((await reserve.run(tx, { id: workspace_id, max })) === 0) throw quotaReached(ctx);
}

export async function listTenants(ctx: Ctx<Vendor>, query: { after?: string | undefined }) {
  const { read } = ctx.services.store;
  const { workspace_id } = ctx.actor;
  const after = query.after
    ? positionAfter(ctx.actor, await tenantPageKey.first(read, { workspace_id, id: query.after }))
    : null;
  const rows = (limit: number, last: PageKey | null) => listTenantRows(read, workspace_id, last ?? after, limit);
  return readList(ctx.services, LIST_MAX, rows, viewTenant);
}

export async function showTenant(ctx: Ctx<Vendor>, id: string) {
  return viewTenant(await liveTenant(ctx.services.store.read, ctx.actor.workspace_id, id));
}

export type TenantEdit = { name?: string | null | undefined; meta?: Meta | undefined };

export function editTenant(ctx: Ctx<Vendor>, id: string, edit: TenantEdit) {
  const { workspace_id } = ctx.actor;
  return mutate(ctx, { workspace_id }, async (tx) => {
    const row = await liveTenant(tx, workspace_id, id);
    const after: TenantRow = {
      ...row,
      name: edit.name === undefined ? row.name : edit.name,
      meta: edit.meta ? JSON.stringify(edit.meta) : row.meta,
      updated_at: ctx.services.clock.now(),
    };
    const nameChange = changes({ name: row.name }, { name: after.name });
    const metaChanged = row.meta !== after.meta;
    if (!nameChange && !metaChanged) return unchanged(viewTenant(row));
    await updateTenant.run(tx, after);
    const payload = { ...nameChange, ...(metaChanged && { meta: { changed: true } }) };
    return { value: viewTenant(after), events: [{ action: "tenant.updated", target_id: id, payload }] };
  });
}

/** Invalidates all embed tokens of the tenant issued so far, from their next request on. */
export function revokeEmbedTokens(ctx: Ctx<Vendor>, id: string) {
  const { workspace_id } = ctx.actor;
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
  const deferrable = await mayDefer(ctx.services);
  return mutate(ctx, { workspace_id }, async (tx) => {
    const { created_env } = await liveTenant(tx, workspace_id, id);
    const now = ctx.services.clock.now();
    const deletion = { id, workspace_id, cause: "tenant_deleted", now, mayDefer: deferrable } as const;
    const revoked_keys = await revokeKeysOf(tx, deletion);
    await markTenantDeleted.run(tx, { workspace_id, id, now });
    await SLOTS[created_env].release.run(tx, { id: workspace_id });
    return {
      value: { object: "tenant" as const, id, deleted: true as const, revoked_keys },
      events: [{ action: "tenant.deleted", target_id: id, payload: { revoked_keys } }],
    };
  });
}
