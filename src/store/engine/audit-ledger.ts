// Appends audit rows to their chains and advances the heads, at the end of every mutation. The heads are locked before
// any job runs, so a chain can neither fork nor skip a number (docs/design/0002-audit-chain-format.md).
import { hash as digest } from "node:crypto";
import { sql } from "kysely";
import { canonicalize, type Json } from "../../kernel/audit/canonical.ts";
import { auditPreimage, GENESIS_HASH } from "../../kernel/audit/chain.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import type { LoopShare } from "../../platform/event-loop.ts";
import { insertRow, rowBy, updateRow } from "./rows.ts";
import { statement } from "./statement.ts";
import type { Tx } from "./tx.ts";
import type { ActorType, AuditHeadRow, AuditLogRow } from "../schema/tables.ts";

/** An audit row before it has its sequence number and hashes. */
export type AuditEntry = {
  workspace_id: string;
  id: string;
  actor_type: ActorType;
  actor_id: string | null;
  action: string;
  target_type: string;
  target_id: string | null;
  payload: Json;
};

/** An entry that cannot fail to be written any more: its payload is canonical JSON and its chain is locked. */
export type PreparedEntry = AuditEntry & { payload_text: string };

export type AuditHeads = Map<string, AuditHeadRow>;

const readHead = rowBy("audit_heads", ["workspace_id"]);

// An upsert that changes nothing: creates the head on first use and locks its row on PostgreSQL.
const lockHead = statement<{ workspace_id: string; hash: string }>()((db, p) =>
  db
    .insertInto("audit_heads")
    .values({ workspace_id: p.workspace_id, seq: 0, hash: p.hash, occurred_at: 0 })
    .onConflict((oc) => oc.column("workspace_id").doUpdateSet({ seq: sql<number>`audit_heads.seq` }))
    .returningAll(),
);

const moveHead = updateRow("audit_heads", ["workspace_id"], ["seq", "hash", "occurred_at"]);

const dropEmptyHead = statement<{ workspace_id: string }>()((db, p) =>
  db.deleteFrom("audit_heads").where("workspace_id", "=", p.workspace_id).where("seq", "=", 0),
);

const insertAudit = insertRow("audit_log", [
  "workspace_id",
  "seq",
  "id",
  "occurred_at",
  "actor_type",
  "actor_id",
  "action",
  "target_type",
  "target_id",
  "payload",
  "prev_hash",
  "hash",
]);

/** Rows that are hashed and inserted without yielding to the event loop: an ordinary group has no more. */
const PIECE_ROWS = 200;

const HEADS_AMONG = "from audit_heads where workspace_id in (select json_array_elements_text($1::json))";

/** Locks the heads in ascending order: the same order in every process prevents deadlocks. */
export async function lockHeads(tx: Tx, workspaceIds: Iterable<string>): Promise<AuditHeads> {
  const ids = [...new Set(workspaceIds)].toSorted();
  // One connection keeps the order of pipelined statements, so this needs no round trip per head.
  const rows = await Promise.all(ids.map((workspace_id) => takeHead(tx, workspace_id)));
  return new Map(rows.filter((row) => row !== undefined).map((row) => [row.workspace_id, row]));
}

/** On PostgreSQL: locks the heads that no other transaction holds, without waiting. */
export async function tryLockHeads(tx: Tx, workspaceIds: readonly string[]): Promise<AuditHeads> {
  if (workspaceIds.length === 0) return new Map();
  const values = [JSON.stringify(workspaceIds)];
  const [free, known] = await Promise.all([
    tx.all<AuditHeadRow>({ sql: `select * ${HEADS_AMONG} for update skip locked`, values }),
    tx.all<AuditHeadRow>({ sql: `select * ${HEADS_AMONG}`, values }),
  ]);
  const exists = new Set(known.map(({ workspace_id }) => workspace_id));
  const created = await lockHeads(
    tx,
    workspaceIds.filter((id) => !exists.has(id)),
  );
  return new Map([...free.map((row) => [row.workspace_id, row] as const), ...created]);
}

/** Where the transaction excludes other writers, an existing head is only read. */
async function takeHead(tx: Tx, workspace_id: string): Promise<AuditHeadRow | undefined> {
  const existing = tx.dialect === "sqlite" ? await readHead.first(tx, { workspace_id }) : undefined;
  return existing ?? lockHead.first(tx, { workspace_id, hash: GENESIS_HASH });
}

export function prepareEntries(heads: AuditHeads, entries: readonly AuditEntry[]): PreparedEntry[] {
  return entries.map((entry) => {
    if (!heads.has(entry.workspace_id)) throw new Error(`no audit head is locked for ${entry.workspace_id}`);
    return { ...entry, payload_text: canonicalize(entry.payload) };
  });
}

/** Chains the entries to their heads and writes both, in pieces: one change may have thousands. */
export async function appendEntries(
  tx: Tx,
  heads: AuditHeads,
  entries: readonly PreparedEntry[],
  { now, loop }: { now: number; loop: LoopShare },
): Promise<void> {
  for (let from = 0; from < entries.length; from += PIECE_ROWS) {
    if (from > 0) await loop.yieldIfDue();
    await appendPiece(tx, heads, entries.slice(from, from + PIECE_ROWS), now);
  }
}

async function appendPiece(tx: Tx, heads: AuditHeads, entries: readonly PreparedEntry[], now: number): Promise<void> {
  const rows: AuditLogRow[] = [];
  const moved = new Set<AuditHeadRow>();
  for (const entry of entries) {
    const head = heads.get(entry.workspace_id) as AuditHeadRow;
    const row = chainEntry(entry, head, now);
    moved.add(Object.assign(head, { seq: row.seq, hash: row.hash, occurred_at: row.occurred_at }));
    rows.push(row);
  }
  await Promise.all([insertAudit.insertMany(tx, rows), ...[...moved].map((head) => moveHead.run(tx, head))]);
}

const auditById = statement<{ id: string }>()((db, p) =>
  db.selectFrom("audit_log").select("seq").where("id", "=", p.id),
);

/** Whether an entry is in the database. No is final only under the lock on its head: a commit may be under way. */
export async function isRecorded(tx: Tx, { id }: AuditEntry): Promise<boolean> {
  return (await auditById.first(tx, { id })) !== undefined;
}

/** Deletes heads that were created for jobs that then wrote nothing: they would announce chains that do not exist. */
export async function dropEmptyHeads(tx: Tx, heads: AuditHeads): Promise<void> {
  for (const [workspace_id, head] of heads) if (head.seq === 0) await dropEmptyHead.run(tx, { workspace_id });
}

function chainEntry({ payload_text, ...entry }: PreparedEntry, head: AuditHeadRow, now: number): AuditLogRow {
  const chained = { ...entry, payload: payload_text, seq: head.seq + 1, prev_hash: head.hash };
  const occurred_at = Math.max(now, head.occurred_at);
  const preimage = auditPreimage({ ...chained, occurred_at: formatTimestamp(occurred_at) }, payload_text);
  return { ...chained, occurred_at, hash: digest("sha256", preimage) };
}
