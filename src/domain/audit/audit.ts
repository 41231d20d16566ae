// Lists the audit log, filtered for test principals.
import type { Json } from "../../kernel/audit/canonical.ts";
import { NIL_WORKSPACE } from "../../kernel/audit/chain.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { readPiece } from "../../store/engine/piece.ts";
import { listAuditRows, type AuditSlice, type AuditWalk } from "../../store/queries/audit.ts";
import type { AuditLogRow } from "../../store/schema/tables.ts";
import { usersByIds } from "../../store/queries/users.ts";
import { confinedTo, type Vendor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { COUNTS_LIVE_KEYS, PRODUCT_STATE } from "../core/events.ts";
import { hasMoreField, readPage, WIDE_PIECE_ROWS, type JsonText, type List, type Viewer } from "../core/list.ts";

export type AuditActor = { id: string; email: string; email_verified: boolean; name: string | null };

export type AuditLog = {
  object: "audit_log";
  id: string;
  seq: number;
  occurred_at: string;
  actor_type: AuditLogRow["actor_type"];
  actor_id: string | null;
  /** Absent for a test principal. */
  actor?: AuditActor | null;
  action: string;
  target_type: string;
  target_id: string | null;
  payload: { [key: string]: Json };
  prev_hash: string;
  hash: string;
};

/** Rows as this actor may read them: a test principal sees neither people nor private payloads. */
export async function auditViewer({ services, actor }: Ctx<Vendor>, rows: AuditLogRow[]) {
  return confinedTo(actor) === "test" ? viewConfined : viewWith(await resolveActors(services, rows));
}

export type AuditQuery = { after_seq?: number | undefined; limit: number };

export async function listAudit(ctx: Ctx<Vendor>, query: AuditQuery): Promise<JsonText<List<AuditLog>>> {
  const { workspace_id } = ctx.actor;
  const walk: AuditWalk = { by: confinedTo(ctx.actor) === "test" ? "visible" : "chain" };
  return readChain(ctx.services, { workspace_id, walk }, query, (rows) => auditViewer(ctx, rows));
}

/** The people who acted, by id. */
async function resolveActors(services: Services, rows: AuditLogRow[]): Promise<Map<string, AuditActor>> {
  const ids = rows.flatMap(({ actor_type, actor_id }) => (actor_type === "user" && actor_id ? [actor_id] : []));
  const people = await usersByIds(services.store.read, [...new Set(ids)]);
  return new Map(
    people.map(({ id, email, email_verified_at, name }) => [
      id,
      { id, email, email_verified: email_verified_at !== null, name },
    ]),
  );
}

/** The deployment's chain: what people and operators did. For the operator only: it names people's accounts. */
export async function listDeploymentAudit(services: Services, query: AuditQuery): Promise<List<AuditLog>> {
  const walk: AuditWalk = { by: "chain" };
  const viewer = async (rows: AuditLogRow[]) => viewWith(await resolveActors(services, rows));
  return (await readChain(services, { workspace_id: NIL_WORKSPACE, walk }, query, viewer)).parse();
}

/** Ascending. */
function readChain(
  services: Services,
  slice: Pick<AuditSlice, "workspace_id" | "walk">,
  { after_seq = 0, limit: max }: AuditQuery,
  viewer: Viewer<AuditLogRow, AuditLog>,
): Promise<JsonText<List<AuditLog>>> {
  return readPage(services, {
    max,
    pieceRows: WIDE_PIECE_ROWS,
    read: (limit, last: AuditLogRow | null) =>
      readPiece(services.store.read, (on) => listAuditRows(on, { ...slice, after_seq: last?.seq ?? after_seq }, limit)),
    viewer,
    fields: hasMoreField,
  });
}

function viewWith(people: Map<string, AuditActor>) {
  return (row: AuditLogRow): AuditLog => ({ ...viewAudit(row), actor: people.get(row.actor_id ?? "") ?? null });
}

function viewAudit(row: AuditLogRow): AuditLog {
  return {
    object: "audit_log",
    id: row.id,
    seq: row.seq,
    occurred_at: formatTimestamp(row.occurred_at),
    actor_type: row.actor_type,
    actor_id: row.actor_id,
    action: row.action,
    target_type: row.target_type,
    target_id: row.target_id,
    payload: JSON.parse(row.payload) as AuditLog["payload"],
    prev_hash: row.prev_hash,
    hash: row.hash,
  };
}

function viewConfined(row: AuditLogRow): AuditLog {
  const view = viewAudit(row);
  return isShownToTest(row) ? view : { ...view, payload: {} };
}

/** Whether a test principal sees the payload. */
export function isShownToTest({ target_type, action }: Pick<AuditLogRow, "target_type" | "action">): boolean {
  return PRODUCT_STATE.has(target_type) && !COUNTS_LIVE_KEYS.has(action);
}
