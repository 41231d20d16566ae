// The audit log in either order, filtered, and as a stream. A filter that no index covers examines a bounded part of the
// chain per page: the page may then be short, or empty, although there is more.
import { canonicalize, type Json } from "../../kernel/audit/canonical.ts";
import { headOf, listAuditRows, occurredAt, type AuditFilter } from "../../store/queries/audit.ts";
import type { AuditLogRow } from "../../store/schema/tables.ts";
import { confinedTo, type Vendor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { ListCursor } from "../core/cursor.ts";
import { actions } from "../core/events.ts";
import { piecesOf, startExport, type Export } from "../core/exports.ts";
import { cutListOf, PIECE_ROWS } from "../core/list.ts";
import { auditViewer, viewAudit, viewConfined, type AuditLog } from "./audit.ts";

/** Rows of the chain that one page examines at most. */
export const EXAMINED_MAX = 5_000;

export type AuditFilters = {
  after_seq?: number | undefined;
  before_seq?: number | undefined;
  /** Exact, or `noun.*`. */
  action?: string | undefined;
  actor_type?: AuditLogRow["actor_type"] | undefined;
  actor_id?: string | undefined;
  target_type?: string | undefined;
  target_id?: string | undefined;
  /** Inclusive. */
  from?: number | undefined;
  /** Exclusive. */
  to?: number | undefined;
};

export type AuditSearch = AuditFilters & {
  order?: "asc" | "desc" | undefined;
  limit: number;
  cursor?: string | undefined;
};

/** A part of a chain; both ends are exclusive. */
type Range = { after: number; before: number };

export type AuditPage = { object: "list"; data: AuditLog[]; next_cursor: string | null };

export async function searchAudit(ctx: Ctx<Vendor>, { limit, cursor, ...search }: AuditSearch): Promise<AuditPage> {
  const { services } = ctx;
  const order = search.order ?? "asc";
  const pages = new ListCursor(ctx, "audit_logs", search);
  const whole = await rangeOf(services, ctx.actor.workspace_id, search);
  if (cursor !== undefined) {
    const seq = Number(pages.read(cursor, ["number"])[0]);
    if (order === "asc") whole.after = Math.max(whole.after, seq);
    else whole.before = Math.min(whole.before, seq);
  }
  const range = isIndexed(search) ? whole : examined(whole, order);
  const rows = await readRows(ctx, search, range, { order, limit });
  const { data, has_more } = cutListOf(services, rows, limit, await auditViewer(ctx, rows));
  const edge = order === "asc" ? range.before - 1 : range.after + 1;
  const isCut = order === "asc" ? range.before < whole.before : range.after > whole.after;
  const next = has_more ? data.at(-1)?.seq : isCut ? edge : undefined;
  return { object: "list", data, next_cursor: next === undefined ? null : pages.write([next]) };
}

/** Whether every row that the page reads from an index belongs to it. The rows of one target are few. */
function isIndexed({ action, actor_type, actor_id, target_type, target_id }: AuditFilters): boolean {
  return target_id !== undefined || [action, actor_type, actor_id, target_type].every((value) => value === undefined);
}

function examined({ after, before }: Range, order: "asc" | "desc"): Range {
  if (order === "asc") return { after, before: Math.min(before, after + EXAMINED_MAX + 1) };
  return { after: Math.max(after, before - EXAMINED_MAX - 1), before };
}

/** Times become sequence numbers: within a chain they never decrease. */
async function rangeOf(services: Services, workspace_id: string, filters: AuditFilters): Promise<Range> {
  const head = (await headOf.first(services.store.read, { workspace_id }))?.seq ?? 0;
  const range = { after: filters.after_seq ?? 0, before: Math.min(filters.before_seq ?? Infinity, head + 1) };
  if (filters.from !== undefined)
    range.after = Math.max(range.after, (await firstSeqAt(services, workspace_id, head, filters.from)) - 1);
  if (filters.to !== undefined)
    range.before = Math.min(range.before, await firstSeqAt(services, workspace_id, head, filters.to));
  return range;
}

/** The first row at this time or later; one past the head if there is none. */
async function firstSeqAt(services: Services, workspace_id: string, head: number, at: number): Promise<number> {
  let [low, high] = [1, head + 1];
  while (low < high) {
    const seq = Math.floor((low + high) / 2);
    const row = await occurredAt.first(services.store.read, { workspace_id, seq });
    if (row && row.occurred_at < at) low = seq + 1;
    else high = seq;
  }
  return low;
}

type Paging = { order: "asc" | "desc"; limit: number };

async function readRows(ctx: Ctx<Vendor>, filters: AuditFilters, range: Range, paging: Paging): Promise<AuditLogRow[]> {
  const { action, actor_type, actor_id, target_type, target_id } = filters;
  const named = action === undefined ? undefined : actionsNamed(action);
  if (range.before - range.after <= 1 || named?.length === 0) return [];
  const filter: AuditFilter = {
    workspace_id: ctx.actor.workspace_id,
    env: confinedTo(ctx.actor) === "test" ? "test" : null,
    after_seq: range.after,
    before_seq: range.before,
    actions: named,
    actor_type,
    actor_id,
    target_type,
    target_id,
    ...paging,
  };
  return listAuditRows(ctx.services.store.read, filter);
}

/** An action that this version does not know has no rows. */
function actionsNamed(pattern: string): string[] {
  const noun = pattern.endsWith(".*") ? pattern.slice(0, -1) : null;
  return Object.keys(actions).filter((name) => (noun === null ? name === pattern : name.startsWith(noun)));
}

export type AuditExport = Export & { to_seq: number };

/** The rows up to the present head, oldest first, one line each. */
export async function exportAudit(ctx: Ctx<Vendor>, filters: AuditFilters): Promise<AuditExport> {
  const range = await rangeOf(ctx.services, ctx.actor.workspace_id, filters);
  const to_seq = await lastSeqOf(ctx, filters, range);
  return { to_seq, ...(await startExport(ctx, "audit_export", exportLines(ctx, filters, range))) };
}

/** To a test principal, a number between its rows would reveal how many are hidden. */
async function lastSeqOf(ctx: Ctx<Vendor>, filters: AuditFilters, range: Range): Promise<number> {
  if (confinedTo(ctx.actor) === null || filters.to === undefined) return Math.max(0, range.before - 1);
  const [last] = await readRows(ctx, {}, range, { order: "desc", limit: 1 });
  return last?.seq ?? 0;
}

/** Without the resolved person, which is no part of an export. */
const toJson = ({ actor: _actor, ...row }: AuditLog): { [key: string]: Json } => row;

async function* exportLines(ctx: Ctx<Vendor>, filters: AuditFilters, whole: Range): AsyncGenerator<string, void> {
  const { workspace_id } = ctx.actor;
  const view = confinedTo(ctx.actor) === "test" ? viewConfined : viewAudit;
  const lineOf = (row: AuditLogRow): string => `${canonicalize({ ...toJson(view(row)), workspace_id })}\n`;
  const paging: Paging = { order: "asc", limit: PIECE_ROWS };
  for (let { after } = whole; after < whole.before - 1; ) {
    const range = isIndexed(filters) ? { ...whole, after } : examined({ ...whole, after }, "asc");
    const rows = (await readRows(ctx, filters, range, paging)).slice(0, PIECE_ROWS);
    await ctx.services.store.durable();
    yield* piecesOf(rows, lineOf);
    await ctx.requireStillValid?.();
    after = rows.length === PIECE_ROWS ? (rows.at(-1)?.seq ?? 0) : range.before - 1;
  }
}
