// Verifies one audit chain against its hashes, its head and its checkpoints. Pages of rows are read in transactions of
// their own: rows never change, and one long transaction would keep the -wal from being reused. Plain SQL: loading the
// query builder takes longer than verifying most chains.
import { hash as digest } from "node:crypto";
import { fromHex, toBase64 } from "../../kernel/crypto/bytes.ts";
import {
  createChainVerifier,
  GENESIS_HASH,
  type BreakReason,
  type ChainHead,
  type ChainVerifier,
  type HashedRow,
} from "../../kernel/audit/chain.ts";
import { MerkleTree } from "../../kernel/crypto/merkle.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import type { Source } from "./source.ts";
import type { AuditLogRow } from "../schema/tables.ts";
import { sha256Bytes } from "../../platform/crypto.ts";

const PAGE_ROWS = 1_000;

/** The Merkle root (base64) over the first `size` rows. A null root never matches. */
export type ExpectedCheckpoint = { size: number; root: string | null };

export type ChainCheck = {
  checked: number;
  head_seq: number;
  head_hash: string;
  broken_seq: number | null;
  reason: BreakReason | null;
};

/** Reads the head and the last row in one transaction: a writer may append in between. */
async function readEnd(source: Source, workspace_id: string): Promise<{ head: ChainHead | null; last: number }> {
  await source.begin();
  const heads = await source.all<ChainHead>("select seq, hash from audit_heads where workspace_id = $1", [
    workspace_id,
  ]);
  const [row] = await source.all<{ last: number | null }>(
    "select max(seq) as last from audit_log where workspace_id = $1",
    [workspace_id],
  );
  await source.commit();
  return { head: heads[0] ?? null, last: row?.last ?? 0 };
}

/** Stored values are not trusted: an invalid time has no text form, so it cannot match the hash. */
function timeText(ms: number): string {
  try {
    return formatTimestamp(ms);
  } catch {
    return String(ms);
  }
}

function toHashed(row: AuditLogRow): HashedRow {
  return { ...row, occurred_at: timeText(row.occurred_at), payload: null, payload_text: row.payload };
}

/** Feeds the rows up to `last` to the verifier. Stops at the first break. */
async function pushRows(
  source: Source,
  workspace_id: string,
  chain: ChainVerifier,
  last: number,
  onVerified: (hash: string) => void,
): Promise<void> {
  for (let after = Number.MIN_SAFE_INTEGER; chain.reason === null && after < last; ) {
    const rows = await source.all<AuditLogRow>(
      `select * from audit_log where workspace_id = $1 and seq > $2 and seq <= $3 order by seq limit ${PAGE_ROWS}`,
      [workspace_id, after, last],
    );
    for (const row of rows) if (chain.push(toHashed(row)) === null) onVerified(row.hash);
    after = rows.at(-1)?.seq ?? last;
  }
}

function checkpointBreak(expected: ExpectedCheckpoint[], roots: Map<number, string>, verified: number): number | null {
  for (const { size, root } of expected) {
    if (size > verified) return verified + 1;
    if (roots.get(size) !== root) return size;
  }
  return null;
}

export async function verifyStoredChain(
  source: Source,
  workspace_id: string,
  checkpoints: ExpectedCheckpoint[],
): Promise<ChainCheck> {
  const expected = checkpoints.toSorted((a, b) => a.size - b.size);
  const { head, last } = await readEnd(source, workspace_id);
  const chain = createChainVerifier((text) => digest("sha256", text));
  const tree = new MerkleTree(sha256Bytes);
  const sizes = new Set(expected.map(({ size }) => size));
  const roots = new Map(sizes.has(0) ? [[0, toBase64(tree.root())]] : []);
  await pushRows(source, workspace_id, chain, last, (hash) => {
    if (sizes.size === 0) return;
    tree.append(fromHex(hash));
    if (sizes.has(tree.size)) roots.set(tree.size, toBase64(tree.root()));
  });
  const reason = chain.finish(head);
  const end = { checked: chain.checked, head_seq: head?.seq ?? 0, head_hash: head?.hash ?? GENESIS_HASH };
  if (reason) return { ...end, reason, broken_seq: chain.broken_seq };
  const broken_seq = checkpointBreak(expected, roots, chain.seq);
  return { ...end, reason: broken_seq === null ? null : "checkpoint_mismatch", broken_seq };
}
