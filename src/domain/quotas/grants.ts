// Grants: units beside the amount of a quota. They outlive periods and rotations, and end when they expire or are
// voided.
import type { Env } from "../../kernel/credentials.ts";
import { fail, failField } from "../../kernel/errors.ts";
import { formatTimestamp, formatTimestampOrNull } from "../../kernel/timestamps.ts";
import { keyById } from "../../store/queries/keys.ts";
import {
  grantById,
  grantByReference,
  insertGrant,
  listGrants as listGrantRows,
  lockGrant,
  openGrants,
  voidGrant as voidGrantRow,
} from "../../store/queries/quota-grants.ts";
import type { Reader } from "../../store/engine/tx.ts";
import type { QuotaGrantRow } from "../../store/schema/tables.ts";
import { projectsOf, type Vendor } from "../core/actor.ts";
import { requireFuture } from "../core/clock.ts";
import type { Ctx } from "../core/context.ts";
import { ListCursor } from "../core/cursor.ts";
import { requireManageable, requireReadable } from "../core/env-access.ts";
import type { Event } from "../core/events.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { liveTenant } from "../workspaces/tenants.ts";
import { balanceEnv } from "./balances.ts";
import { readDefinition, type Metered } from "./definitions.ts";
import { grantsName } from "./takes.ts";

export const OPEN_MAX = 1_000;

/** Whose quota: a key's own, or a tenant's in one environment. */
export type GrantTarget =
  | { scope: "key"; key_id: string; quota_id: string }
  | { scope: "tenant"; tenant_id: string; quota_id: string; env?: Env | undefined };

type NewGrant = {
  units: number;
  expires_at?: number | undefined;
  reason?: string | undefined;
  reference?: string | undefined;
};

type Found = { metered: Metered; tenant_id: string; key_id: string | null };

async function findQuota(on: Reader, ctx: Ctx<Vendor>, target: GrantTarget, manages: boolean): Promise<Found> {
  const { actor } = ctx;
  const { workspace_id } = actor;
  if (target.scope === "tenant") {
    const env = balanceEnv(actor, target.env);
    const { id: tenant_id } = await liveTenant(on, workspace_id, target.tenant_id);
    const subject = { workspace_id, key_id: null, tenant_id, env };
    return { metered: await requireQuota(on, subject, target), tenant_id, key_id: null };
  }
  const row = await keyById.first(on, { workspace_id, id: target.key_id });
  const key = manages ? requireManageable(actor, row, "key_not_found") : requireReadable(actor, row, "key_not_found");
  const subject = { workspace_id, key_id: key.id, tenant_id: key.tenant_id, env: key.env };
  return { metered: await requireQuota(on, subject, target), tenant_id: key.tenant_id, key_id: key.id };
}

async function requireQuota(
  on: Reader,
  subject: Parameters<typeof readDefinition>[1],
  { scope, quota_id }: GrantTarget,
): Promise<Metered> {
  const metered = (await readDefinition(on, subject))?.metered ?? [];
  const found = metered.find((one) => one.scope === scope && one.quota.id === quota_id);
  if (!found) throw fail("quota_not_found");
  return found;
}

/** `isReplay`: the reference was used before, for as many units. */
export async function createGrant(ctx: Ctx<Vendor>, target: GrantTarget, input: NewGrant) {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  const { reference } = input;
  const onConflict = () => fail("unavailable"); // the same reference at the same moment
  const done = await mutate(ctx, { workspace_id, onConflict }, async (tx) => {
    const found = await findQuota(tx, ctx, target, true);
    const { subject_id, env, quota } = found.metered;
    const to = { subject_id, env, quota_id: quota.id };
    const known = reference === undefined ? undefined : await grantByReference.first(tx, { ...to, reference });
    if (known && known.units !== input.units)
      throw failField("grant_reference_used", "reference", "was used for another number of units");
    if (known) return unchanged({ grant: viewGrant(known), isReplay: true, to });
    requireFuture(services.clock, input.expires_at);
    if ((await openGrants.all(tx, { ...to, now: services.clock.now() })).length >= OPEN_MAX)
      throw fail("grants_reached");
    const row = newGrantRow(ctx, found, input);
    await insertGrant.run(tx, row);
    return { value: { grant: viewGrant(row), isReplay: false, to }, events: [grantCreated(row)] };
  });
  // This process applies it immediately; others admit within a second, and count it with their next block.
  await services.quotas.readGrants(grantsName(done.to));
  return done;
}

function newGrantRow(
  { services, actor }: Ctx<Vendor>,
  { metered: { subject_id, env, quota }, tenant_id, key_id }: Found,
  { units, expires_at, reason, reference }: NewGrant,
): QuotaGrantRow {
  return {
    subject_id,
    env,
    quota_id: quota.id,
    id: services.newId(),
    workspace_id: actor.workspace_id,
    tenant_id,
    key_id,
    units,
    remaining: units,
    expires_at: expires_at ?? null,
    reason: reason ?? null,
    reference: reference ?? null,
    voided_at: null,
    created_at: services.clock.now(),
  };
}

function grantCreated(row: QuotaGrantRow): Event {
  const { id, env, quota_id, units, reference, tenant_id, key_id } = row;
  const about = key_id === null ? { tenant_id } : { key_id };
  const { expires_at } = viewGrant(row);
  return {
    action: "quota_grant.created",
    target_id: id,
    payload: { env, quota_id, units, expires_at, reference, ...about },
  };
}

/** Takes back what is left, also of what processes hold. Until it is notified, another one can spend that. */
export async function voidGrant(ctx: Ctx<Vendor>, id: string) {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  const manageable = async (on: Reader, read = grantById): Promise<QuotaGrantRow> => {
    const row = requireManageable(actor, await read.first(on, { workspace_id, id }), "grant_not_found");
    await requireReach(on, ctx, row);
    return row;
  };
  const name = grantsName(await manageable(services.store.read));
  await services.quotas.recall(name);
  const grant = await mutate(ctx, { workspace_id }, async (tx) => {
    const row = await manageable(tx, lockGrant);
    if (row.voided_at !== null) return unchanged(viewGrant(row));
    const after = { ...row, voided_at: services.clock.now(), remaining: 0 };
    await voidGrantRow.run(tx, after);
    const payload = { env: row.env, remaining: row.remaining };
    return { value: viewGrant(after), events: [{ action: "quota_grant.voided", target_id: id, payload }] };
  });
  // Again, for what a request has taken of it since.
  await services.quotas.recall(name);
  return grant;
}

/** To a key that is confined to projects, only grants to keys of these projects exist. */
async function requireReach(
  on: Reader,
  { actor }: Ctx<Vendor>,
  { workspace_id, key_id }: QuotaGrantRow,
): Promise<void> {
  if (projectsOf(actor) === null) return;
  const key = key_id === null ? undefined : await keyById.first(on, { workspace_id, id: key_id });
  requireReadable(actor, key, "grant_not_found");
}

type GrantQuery = { limit: number; cursor?: string | undefined };

export async function listGrants(ctx: Ctx<Vendor>, target: GrantTarget, { limit, cursor }: GrantQuery) {
  const { services } = ctx;
  const { metered } = await findQuota(services.store.read, ctx, target, false);
  const { subject_id, env, quota } = metered;
  const pages = new ListCursor(ctx, "quota_grants", { subject_id, env, quota_id: quota.id });
  const [created_at, id] = cursor === undefined ? [] : pages.read(cursor, ["number", "string"]);
  const after = created_at === undefined ? null : { created_at: Number(created_at), id: String(id) };
  const rows = await listGrantRows(services.store.read, { subject_id, env, quota_id: quota.id }, after, limit + 1);
  const data = rows.slice(0, limit);
  const last = rows.length > limit ? data.at(-1) : undefined;
  const next_cursor = last ? pages.write([last.created_at, last.id]) : null;
  return { object: "list" as const, data: data.map(viewGrant), next_cursor };
}

function viewGrant(row: QuotaGrantRow) {
  return {
    object: "quota_grant" as const,
    id: row.id,
    quota_id: row.quota_id,
    scope: row.key_id === null ? ("tenant" as const) : ("key" as const),
    tenant_id: row.tenant_id,
    key_id: row.key_id,
    env: row.env,
    units: row.units,
    remaining: row.remaining,
    expires_at: formatTimestampOrNull(row.expires_at),
    reason: row.reason,
    reference: row.reference,
    voided_at: formatTimestampOrNull(row.voided_at),
    created_at: formatTimestamp(row.created_at),
  };
}
