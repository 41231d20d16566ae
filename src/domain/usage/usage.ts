// Usage and billing reports. Days and months are UTC; lists are filled with zeros so that charts have no gaps. Sums are
// fractional when a fleet samples, and are rounded here, once.
import type { Env } from "../../kernel/credentials.ts";
import { DAY_MS, utcDay } from "../../kernel/durations.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { keyById } from "../../store/queries/keys.ts";
import type { UsageTenantMonthRow } from "../../store/schema/tables.ts";
import { activeTenants, keyDays, reapDays, tenantMonths } from "../../store/queries/usage.ts";
import { projectsOf, type EmbedActor, type Vendor } from "../core/actor.ts";
import { requireReadable, visibleEnv } from "../core/env-access.ts";
import type { Ctx, Services } from "../core/context.ts";
import { monthOf } from "../ingest/totals.ts";
import { reap } from "../core/record.ts";
import { inThreadSlot, threadReader } from "../core/read-slots.ts";
import { listOf, type List } from "../core/list.ts";

/** UTC days that are kept, of keys and of series. */
export const DAYS_KEPT = 400;

function dayText(day: number): string {
  return formatTimestamp(day * DAY_MS).slice(0, 10);
}

function monthText(month: number): string {
  return formatTimestamp(Date.UTC(1970, month, 1)).slice(0, 10);
}

/** Requests and errors of one key, oldest day first, today last. */
export async function keyUsage(ctx: Ctx<Vendor>, key_id: string, days: number) {
  const { workspace_id } = ctx.actor;
  requireReadable(
    ctx.actor,
    await keyById.first(ctx.services.store.read, { workspace_id, id: key_id }),
    "key_not_found",
  );
  return usageOf(ctx, key_id, days);
}

/** Caution: the caller must have checked access to the key. */
export async function usageOf({ services, actor }: Ctx<Vendor | EmbedActor>, key_id: string, days: number) {
  const { workspace_id } = actor;
  const to = utcDay(services.clock.now());
  const from = to - days + 1;
  const rows = await keyDays.all(services.store.read, { workspace_id, key_id, from, to });
  const byDay = new Map(rows.map((row) => [row.day, row]));
  const data = Array.from({ length: days }, (_, i) => {
    const { requests = 0, errors = 0 } = byDay.get(from + i) ?? {};
    return { day: dayText(from + i), requests: Math.round(requests), errors: Math.round(errors) };
  });
  return { object: "usage" as const, key_id, days, data };
}

type BillableTenantMonth = { object: "billable_tenant_month"; month: string; active_tenants: number };

/** Live tenants with an admitted event, newest month first. */
export async function billing(ctx: Ctx<Vendor>, months: number): Promise<List<BillableTenantMonth>> {
  const { services, actor } = ctx;
  const to = monthOf(services.clock.now());
  const from = to - months + 1;
  const range = { workspace_id: actor.workspace_id, from, to };
  const rows = await inThreadSlot(ctx, () => activeTenants.all(threadReader(services.store), range));
  const byMonth = new Map(rows.map((row) => [row.month, row.active_tenants]));
  const data = Array.from({ length: months }, (_, i) => ({
    object: "billable_tenant_month" as const,
    month: monthText(to - i),
    active_tenants: byMonth.get(to - i) ?? 0,
  }));
  return { object: "list", data };
}

type ActivityQuery = { months: number; env?: Env | undefined; limit: number };

/** Newest month first, and in it the tenants with the most requests. */
export async function tenantActivity(ctx: Ctx<Vendor>, query: ActivityQuery) {
  const { services, actor } = ctx;
  const { limit } = query;
  const env = visibleEnv(actor, query.env);
  const to = monthOf(services.clock.now());
  const from = to - query.months + 1;
  const { workspace_id } = actor;
  const filter = { workspace_id, projects: projectsOf(actor), env, from, to, limit };
  const rows = await inThreadSlot(ctx, () => tenantMonths(threadReader(services.store), filter));
  return listOf(rows, limit, viewTenantMonth);
}

function viewTenantMonth(row: UsageTenantMonthRow) {
  return {
    object: "tenant_activity_month" as const,
    tenant_id: row.tenant_id,
    project_id: row.project_id,
    env: row.env,
    month: monthText(row.month),
    request_count: Math.round(row.requests),
    first_seen_at: formatTimestamp(row.first_seen_at),
    last_seen_at: formatTimestamp(row.last_seen_at),
  };
}

/** Days are kept for 400 days, months forever. */
export function reapUsage(services: Services): Promise<number> {
  const before = utcDay(services.clock.now()) - DAYS_KEPT;
  return reap(services, reapDays, { before });
}
