// The end of every mutation: audit rows appended to their chains, heads moved, policy versions written.
// The heads are locked before any work starts, so a chain can neither fork nor skip.
import { hash as digest } from "node:crypto";
import { sql } from "kysely";
import { canonicalize, type Json } from "../../kernel/audit/canonical.ts";
import { auditPreimage, GENESIS_HASH } from "../../kernel/audit/chain.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { statement, type Tx } from "./statement.ts";
import type { ActorType, AuditHeadRow, AuditLogRow } from "../schema/tables.ts";

/** An audit row before it has its place in the chain. */
export type Entry = {
  workspace_id: string;
  id: string;
  actor_type: ActorType;
  actor_id: string | null;
  action: string;
  target_type: string;
  target_id: string | null;
  payload: Json;
};

/** An entry that surely can be written: its payload has a canonical text and its chain is locked. */
export type PreparedEntry = Entry & { payload_text: string };

export type Heads = Map<string, AuditHeadRow>;

const readHead = statement<{ workspace_id: string }>()((db, p) =>
  db.selectFrom("audit_heads").selectAll().where("workspace_id", "=", p.workspace_id),
);

// An upsert that changes nothing: a row lock on PostgreSQL, the head made on first use.
const lockHead = statement<{ workspace_id: string; hash: string }>()((db, p) =>
  db
    .insertInto("audit_heads")
    .values({ workspace_id: p.workspace_id, seq: 0, hash: p.hash, occurred_at: 0 })
    .onConflict((oc) => oc.column("workspace_id").doUpdateSet({ seq: sql<number>`audit_heads.seq` }))
    .returningAll(),
);

const moveHead = statement<AuditHeadRow>()((db, p) =>
  db
    .updateTable("audit_heads")
    .set({ seq: p.seq, hash: p.hash, occurred_at: p.occurred_at })
    .where("workspace_id", "=", p.workspace_id),
);

const dropEmptyHead = statement<{ workspace_id: string }>()((db, p) =>
  db.deleteFrom("audit_heads").where("workspace_id", "=", p.workspace_id).where("seq", "=", 0),
);

const insertAudit = statement<AuditLogRow>()((db, p) =>
  db.insertInto("audit_log").values({
    workspace_id: p.workspace_id,
    seq: p.seq,
    id: p.id,
    occurred_at: p.occurred_at,
    actor_type: p.actor_type,
    actor_id: p.actor_id,
    action: p.action,
    target_type: p.target_type,
    target_id: p.target_id,
    payload: p.payload,
    prev_hash: p.prev_hash,
    hash: p.hash,
  }),
);

/** Takes the heads in ascending order: every process locks in the same order, so none waits in a circle. */
export async function lockHeads(tx: Tx, workspaceIds: Iterable<string>, exclusive: boolean): Promise<Heads> {
  const ids = [...new Set(workspaceIds)].toSorted();
  // Sent in this order on one connection, so taken in this order too, without a round trip each.
  const rows = await Promise.all(ids.map((workspace_id) => takeHead(tx, workspace_id, exclusive)));
  return new Map(rows.filter((row) => row !== undefined).map((row) => [row.workspace_id, row]));
}

/** Where nobody else writes, a head is only read, unless it must be made. */
async function takeHead(tx: Tx, workspace_id: string, exclusive: boolean): Promise<AuditHeadRow | undefined> {
  const there = exclusive ? await readHead.first(tx, { workspace_id }) : undefined;
  return there ?? lockHead.first(tx, { workspace_id, hash: GENESIS_HASH });
}

export function prepareEntries(heads: Heads, entries: readonly Entry[]): PreparedEntry[] {
  return entries.map((entry) => {
    if (!heads.has(entry.workspace_id)) throw new Error(`no audit head is locked for ${entry.workspace_id}`);
    return { ...entry, payload_text: canonicalize(entry.payload) };
  });
}

/** Places the entries behind their heads and writes them. */
export async function appendEntries(
  tx: Tx,
  heads: Heads,
  entries: readonly PreparedEntry[],
  now: number,
): Promise<void> {
  const rows: AuditLogRow[] = [];
  const moved = new Set<AuditHeadRow>();
  for (const entry of entries) {
    const head = heads.get(entry.workspace_id) as AuditHeadRow;
    const row = placeEntry(entry, head, now);
    moved.add(Object.assign(head, { seq: row.seq, hash: row.hash, occurred_at: row.occurred_at }));
    rows.push(row);
  }
  await Promise.all([insertAudit.insertMany(tx, rows), ...[...moved].map((head) => moveHead.run(tx, head))]);
}

/** A head that was made for a mutation which then wrote nothing would stand for a chain that does not exist. */
export async function dropEmptyHeads(tx: Tx, heads: Heads): Promise<void> {
  for (const [workspace_id, head] of heads) if (head.seq === 0) await dropEmptyHead.run(tx, { workspace_id });
}

/** Field by field: three copies of every entry were felt in a mint. */
function placeEntry(entry: PreparedEntry, head: AuditHeadRow, now: number): AuditLogRow {
  const row: AuditLogRow = {
    workspace_id: entry.workspace_id,
    seq: head.seq + 1,
    id: entry.id,
    occurred_at: Math.max(now, head.occurred_at),
    actor_type: entry.actor_type,
    actor_id: entry.actor_id,
    action: entry.action,
    target_type: entry.target_type,
    target_id: entry.target_id,
    payload: entry.payload_text,
    prev_hash: head.hash,
    hash: "",
  };
  const told = { ...row, occurred_at: formatTimestamp(row.occurred_at) };
  row.hash = digest("sha256", auditPreimage(told, row.payload));
  return row;
}
