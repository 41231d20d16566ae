// The audit log as a stream of canonical JSON lines, which `keyrack audit verify --file` verifies.
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import type { AuditLogRow } from "../../store/schema/tables.ts";
import { confinedTo, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { piecesOf, startExport, type Export } from "../core/exports.ts";
import { PIECE_ROWS, WIDE_PIECE_ROWS } from "../core/list.ts";
import { isShownToTest } from "./audit.ts";
import { rangeOf, type AuditFilters } from "./search.ts";
import { readAudit, type Paging, type Range } from "./walk.ts";

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

/**
 * The canonical JSON of a row as the list shows it, with its workspace and without the person. By hand: the keys are in
 * sorted order, a payload is canonical as it is stored, and nothing in ids, hashes, actions and types needs an escape.
 * bench: insight/audit-export
 */
function lineOf(row: AuditLogRow, payload: string): string {
  return (
    `{"action":"${row.action}","actor_id":${idOrNull(row.actor_id)},"actor_type":"${row.actor_type}"` +
    `,"hash":"${row.hash}","id":"${row.id}","object":"audit_log","occurred_at":"${formatTimestamp(row.occurred_at)}"` +
    `,"payload":${payload},"prev_hash":"${row.prev_hash}","seq":${row.seq},"target_id":${idOrNull(row.target_id)}` +
    `,"target_type":"${row.target_type}","workspace_id":"${row.workspace_id}"}\n`
  );
}

const idOrNull = (id: string | null): string => (id === null ? "null" : `"${id}"`);

async function* exportLines(ctx: Ctx<Vendor>, filters: AuditFilters, whole: Range): AsyncGenerator<string, void> {
  const isConfined = confinedTo(ctx.actor) === "test";
  const line = (row: AuditLogRow): string => lineOf(row, isConfined && !isShownToTest(row) ? "{}" : row.payload);
  const { read } = ctx.services.store; // one that can end within the rows of a piece bounds it by what they contain
  const paging: Paging = { order: "asc", limit: read.allWithin ? PIECE_ROWS : WIDE_PIECE_ROWS };
  for (let after: number | undefined = whole.after; after !== undefined; ) {
    const { rows, end } = await readAudit(ctx, filters, { ...whole, after }, paging);
    await ctx.services.store.durable();
    yield* piecesOf(rows.slice(0, paging.limit), line);
    if (rows.length === 0) {
      await ctx.requireStillValid?.(); // otherwise checked with each piece of lines
      await yieldToEventLoop();
    }
    after = rows.length > paging.limit ? rows[paging.limit - 1]?.seq : end;
  }
}
