// The audit log in either order, filtered, and as a stream. A filter that no index covers examines a bounded part of the
// chain per page: the page may then be short, or empty, although there is more.
import { setImmediate as endOfTurn } from "node:timers/promises";
import { canonicalize, type Json } from "../../kernel/audit/canonical.ts";
import { headOf, listAuditRows, occurredAt, type AuditFilter } from "../../store/queries/audit.ts";
import type { AuditLogRow } from "../../store/schema/tables.ts";
import { confinedTo, ownerOf, type Vendor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { ListCursor } from "../core/cursor.ts";
import { actions } from "../core/events.ts";
import { cutListOf, PIECE_ROWS } from "../core/list.ts";
import { auditViewer, viewAudit, viewConfined, type AuditLog } from "./audit.ts";

/** An export is sent in pieces of about this length. */
const PIECE_CHARS = 256 * 1024;
/** Rows of the chain that one page examines at most. */
export const EXAMINED_MAX = 5_000;
const RETRY_MS = 60_000;

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
  const pages = new ListCursor(ctx.actor, "audit_logs", search);
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

export type AuditExport = {
  to_seq: number;
  /** Whole lines. */
  pieces: AsyncIterable<string>;
  /** Aborted where the export must make room for other owners. */
  cut: AbortSignal;
  /** To be called when the stream has closed. */
  ended: () => void;
};

/** The rows up to the present head, oldest first, one line each; read in pieces as the client takes them. */
export async function exportAudit(ctx: Ctx<Vendor>, filters: AuditFilters): Promise<AuditExport> {
  const range = await rangeOf(ctx.services, ctx.actor.workspace_id, filters);
  const to_seq = await lastSeqOf(ctx, filters, range);
  const ended = beginExport(ctx);
  const cut = new AbortController();
  const pieces = exportPieces(ctx, filters, range, () => cut.abort());
  try {
    const first = await pieces.next(); // a read that fails at once is answered as an error
    return { to_seq, pieces: continued(first, pieces), cut: cut.signal, ended };
  } catch (error) {
    ended();
    throw error;
  }
}

/** To a test principal, a number between its rows would reveal how many are hidden. */
async function lastSeqOf(ctx: Ctx<Vendor>, filters: AuditFilters, range: Range): Promise<number> {
  if (confinedTo(ctx.actor) === null || filters.to === undefined) return Math.max(0, range.before - 1);
  const [last] = await readRows(ctx, {}, range, { order: "desc", limit: 1 });
  return last?.seq ?? 0;
}

async function* continued<T>(first: IteratorResult<T, void>, rest: AsyncGenerator<T, void>): AsyncGenerator<T, void> {
  try {
    if (!first.done) yield first.value;
    yield* rest;
  } finally {
    await rest.return();
  }
}

/** An export reads on for as long as its client takes what it reads, so only a few of an owner run. */
function beginExport({ services, actor }: Ctx<Vendor>): () => void {
  const running = services.shares.of("exports");
  const owner = ownerOf(actor);
  if (!running.hasRoom(owner)) {
    running.countRefusal(owner);
    throw services.throttles.refusal({ name: "audit_export", limit: running.limits.share, windowMs: RETRY_MS });
  }
  running.take(owner);
  return () => running.release(owner);
}

/** Without the resolved person, which is no part of an export. */
const toJson = ({ actor: _actor, ...row }: AuditLog): { [key: string]: Json } => row;

/** Each piece is charged to its owner until the client wants the next one. `cut` ends the export to make room. */
async function* exportPieces(
  ctx: Ctx<Vendor>,
  filters: AuditFilters,
  whole: Range,
  cut: () => void,
): AsyncGenerator<string, void> {
  const { answers, shutdown, store } = ctx.services;
  const owner = ownerOf(ctx.actor);
  const paging: Paging = { order: "asc", limit: PIECE_ROWS };
  for (let { after } = whole; after < whole.before - 1; ) {
    const range = isIndexed(filters) ? { ...whole, after } : examined({ ...whole, after }, "asc");
    const rows = (await readRows(ctx, filters, range, paging)).slice(0, PIECE_ROWS);
    await store.durable();
    for (const piece of piecesOf(ctx.actor, rows)) {
      if (shutdown.signal.aborted) throw new Error("the server is stopping");
      const release = answers.charge(owner, {}, Buffer.byteLength(piece), cut);
      try {
        yield piece;
      } finally {
        release();
      }
      await endOfTurn();
    }
    await ctx.requireStillValid?.();
    after = rows.length === PIECE_ROWS ? (rows.at(-1)?.seq ?? 0) : range.before - 1;
  }
}

/** The rows as lines, some at a time: a row may be large. */
function* piecesOf(actor: Vendor, rows: readonly AuditLogRow[]): Generator<string> {
  const { workspace_id } = actor;
  const view = confinedTo(actor) === "test" ? viewConfined : viewAudit;
  let piece = "";
  for (const row of rows) {
    piece += `${canonicalize({ ...toJson(view(row)), workspace_id })}\n`;
    if (piece.length < PIECE_CHARS) continue;
    yield piece;
    piece = "";
  }
  if (piece !== "") yield piece;
}
