// The audit log in either order, filtered.
import { headOf, occurredAt } from "../../store/queries/audit.ts";
import type { AuditLogRow } from "../../store/schema/tables.ts";
import type { Vendor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { ListCursor } from "../core/cursor.ts";
import { readPage, WIDE_PIECE_ROWS, type JsonText } from "../core/list.ts";
import { auditViewer, type AuditLog } from "./audit.ts";
import { readAudit, type Range, type RowFilters } from "./walk.ts";

export type AuditFilters = RowFilters & {
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
export async function rangeOf(services: Services, workspace_id: string, filters: AuditFilters): Promise<Range> {
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
