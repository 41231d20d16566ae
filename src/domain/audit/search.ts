// The audit log in either order, filtered, and as a stream.
import { canonicalize, type Json } from "../../kernel/audit/canonical.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import { headOf, occurredAt } from "../../store/queries/audit.ts";
import type { AuditLogRow } from "../../store/schema/tables.ts";
import { confinedTo, type Vendor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { ListCursor } from "../core/cursor.ts";
import { piecesOf, startExport, type Export } from "../core/exports.ts";
import { readPage, WIDE_PIECE_ROWS, type JsonText } from "../core/list.ts";
import { auditViewer, viewAudit, viewConfined, type AuditLog } from "./audit.ts";
import { readAudit, type Paging, type Range, type RowFilters } from "./walk.ts";

type AuditFilters = RowFilters & {
  after_seq?: number | undefined;
  before_seq?: number | undefined;
  /** Inclusive. */
  from?: number | undefined;
  /** Exclusive. */
  to?: number | undefined;
};

type AuditSearch = AuditFilters & {
  order?: "asc" | "desc" | undefined;
  limit: number;
  cursor?: string | undefined;
};

type AuditPage = { object: "list"; data: AuditLog[]; next_cursor: string | null };

export async function searchAudit(
  ctx: Ctx<Vendor>,
  { limit, cursor, ...search }: AuditSearch,
): Promise<JsonText<AuditPage>> {
  const { services } = ctx;
  const order = search.order ?? "asc";
  const pages = new ListCursor(ctx, "audit_logs", search);
  const range = await rangeOf(services, ctx.actor.workspace_id, search);
  if (cursor !== undefined) {
    const seq = Number(pages.read(cursor, ["number"])[0]);
    if (order === "asc") range.after = Math.max(range.after, seq);
    else range.before = Math.min(range.before, seq);
  }
  let examined: number | undefined;
  return readPage(services, {
    max: limit,
    pieceRows: WIDE_PIECE_ROWS,
    read: async (rows, last: AuditLogRow | null) => {
      const part = last === null ? range : { ...range, [order === "asc" ? "after" : "before"]: last.seq };
      const piece = await readAudit(ctx, search, part, { order, limit: rows });
      examined = piece.isCut ? undefined : piece.end;
      return piece;
    },
    viewer: (rows) => auditViewer(ctx, rows),
    fields: ({ last, hasMore }) => {
      const next = hasMore ? last?.seq : examined;
      return { next_cursor: next === undefined ? null : pages.write([next]) };
    },
  });
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

type AuditExport = Export & { to_seq: number };

/** The rows up to the present head, oldest first, one line each. */
export async function exportAudit(ctx: Ctx<Vendor>, filters: AuditFilters): Promise<AuditExport> {
  const range = await rangeOf(ctx.services, ctx.actor.workspace_id, filters);
  const to_seq = await lastSeqOf(ctx, filters, range);
  return { to_seq, ...(await startExport(ctx, "audit_export", exportLines(ctx, filters, range))) };
}

/** To a test principal, a number between its rows would reveal how many are hidden. */
async function lastSeqOf(ctx: Ctx<Vendor>, filters: AuditFilters, range: Range): Promise<number> {
  if (confinedTo(ctx.actor) === null || filters.to === undefined) return Math.max(0, range.before - 1);
  const { rows } = await readAudit(ctx, {}, range, { order: "desc", limit: 1 });
  return rows[0]?.seq ?? 0;
}

/** Drops the resolved person, which is not part of an export. */
const toJson = ({ actor: _actor, ...row }: AuditLog): { [key: string]: Json } => row;

async function* exportLines(ctx: Ctx<Vendor>, filters: AuditFilters, whole: Range): AsyncGenerator<string, void> {
  const { workspace_id } = ctx.actor;
  const view = confinedTo(ctx.actor) === "test" ? viewConfined : viewAudit;
  const lineOf = (row: AuditLogRow): string => `${canonicalize({ ...toJson(view(row)), workspace_id })}\n`;
  const paging: Paging = { order: "asc", limit: WIDE_PIECE_ROWS };
  for (let after: number | undefined = whole.after; after !== undefined; ) {
    const { rows, end } = await readAudit(ctx, filters, { ...whole, after }, paging);
    await ctx.services.store.durable();
    yield* piecesOf(rows.slice(0, paging.limit), lineOf);
    if (rows.length === 0) {
      await ctx.requireStillValid?.(); // otherwise checked with each piece of lines
      await yieldToEventLoop();
    }
    after = rows.length > paging.limit ? rows[paging.limit - 1]?.seq : end;
  }
}
