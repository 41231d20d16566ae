// Verifies one audit chain against its hashes, its head and its checkpoints. Pages of rows are read in transactions of
// their own: rows never change, and one long transaction would keep the -wal from being reused. Plain SQL: loading the
// query builder takes longer than verifying most chains.
import { hash as digest } from "node:crypto";
import { fromBase64, fromHex, toBase64 } from "../../kernel/crypto/bytes.ts";
import {
  createChainVerifier,
  GENESIS_HASH,
  type BreakReason,
  type ChainHead,
  type ChainVerifier,
  type HashedRow,
} from "../../kernel/audit/chain.ts";
import { MerkleTree } from "../../kernel/crypto/merkle.ts";
import { computeKeyId, openNote, parseCheckpoint, type Checkpoint } from "../../kernel/crypto/signed-note.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import type { Source } from "../offline/source.ts";
import type { AuditLogRow } from "../schema/tables.ts";
import { sha256Bytes, verifyEd25519 } from "../../platform/crypto.ts";

const PAGE_ROWS = 1_000;

/** The Merkle root (base64) over the first `size` rows. A null root never matches. */
export type ExpectedCheckpoint = { size: number; root: string | null };

/** The checkpoint in a stored note; null unless the key signed it for this chain and size. */
export function openStoredCheckpoint(
  { note, seq }: { note: string; seq: number },
  origin: string,
  publicKey: Uint8Array,
): Checkpoint | null {
  const key = { name: origin, keyId: computeKeyId(origin, publicKey, sha256Bytes), publicKey };
  const text = openNote(note, key, verifyEd25519);
  const checkpoint = text === null ? null : parseCheckpoint(text);
  return checkpoint && checkpoint.origin === origin && checkpoint.size === seq ? checkpoint : null;
}

/** The first rows of a chain, as far as they were verified. `frontier` is that of their Merkle tree, in base64. */
export type VerifiedPart = { seq: number; hash: string; frontier: string[] };

export const NOTHING_VERIFIED: VerifiedPart = { seq: 0, hash: GENESIS_HASH, frontier: [] };

/** How far a verification has come; `check` is its result once it has reached the end. */
export type ChainSlice = { part: VerifiedPart; roots: [size: number, root: string][]; check: ChainCheck | null };

export type ChainCheck = {
  part: VerifiedPart;
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

/** Feeds the rows up to `last` to the verifier. Stops at the first break, and after `maxMs`: then it returns false. */
async function pushRows(
  source: Source,
  workspace_id: string,
  chain: ChainVerifier,
  { last, maxMs }: { last: number; maxMs: number },
  onVerified: (hash: string) => void,
): Promise<boolean> {
  const end = performance.now() + maxMs;
  // For a whole chain, include rows below 1, which must not exist.
  for (let after = chain.seq || Number.MIN_SAFE_INTEGER; chain.reason === null && after < last; ) {
    if (performance.now() > end) return false;
    const rows = await source.all<AuditLogRow>(
      `select * from audit_log where workspace_id = $1 and seq > $2 and seq <= $3 order by seq limit ${PAGE_ROWS}`,
      [workspace_id, after, last],
    );
    for (const row of rows) if (chain.push(toHashed(row)) === null) onVerified(row.hash);
    after = rows.at(-1)?.seq ?? last;
  }
  return true;
}

/** The first row that contradicts the checkpoints, which are in ascending order. */
export function checkpointBreak(
  expected: readonly ExpectedCheckpoint[],
  roots: ReadonlyMap<number, string>,
  verified: number,
): number | null {
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
  const from = { part: NOTHING_VERIFIED, roots: [] };
  const { check } = await verifySlice(source, workspace_id, { checkpoints, from, since: 0 }, Number.POSITIVE_INFINITY);
  if (!check) throw new Error("a verification without a time limit has not ended");
  return check;
}

export type SliceOptions = {
  /** None of them smaller than the part that was verified before `since`. */
  checkpoints: ExpectedCheckpoint[];
  from: Pick<ChainSlice, "part" | "roots">;
  /** `checked` counts the rows after this one. */
  since: number;
};

/** Verifies on from where the slice before ended, for about `maxMs`. */
export async function verifySlice(
  source: Source,
  workspace_id: string,
  { checkpoints, from, since }: SliceOptions,
  maxMs: number,
): Promise<ChainSlice> {
  const expected = checkpoints.toSorted((a, b) => a.size - b.size);
  const { head, last } = await readEnd(source, workspace_id);
  const chain = createChainVerifier((text) => digest("sha256", text), from.part);
  const tree = new MerkleTree(sha256Bytes, {
    size: from.part.seq,
    frontier: from.part.frontier.map((root) => fromBase64(root)),
  });
  const sizes = new Set(expected.map(({ size }) => size));
  const roots = new Map(from.roots);
  const noteRoot = (): void => void (sizes.has(tree.size) && roots.set(tree.size, toBase64(tree.root())));
  noteRoot();
  const done = await pushRows(source, workspace_id, chain, { last, maxMs }, (hash) => {
    tree.append(fromHex(hash));
    noteRoot();
  });
  const frontier = tree.frontier().map((root) => toBase64(root));
  const slice = { part: { seq: chain.seq, hash: chain.hash, frontier }, roots: [...roots] };
  if (!done) return { ...slice, check: null };
  const reason = chain.finish(head);
  const end = { checked: chain.seq - since, head_seq: head?.seq ?? 0, head_hash: head?.hash ?? GENESIS_HASH };
  if (reason) return { ...slice, check: { ...end, part: slice.part, reason, broken_seq: chain.broken_seq } };
  const broken_seq = checkpointBreak(expected, roots, chain.seq);
  const mismatch = broken_seq === null ? null : ("checkpoint_mismatch" as const);
  return { ...slice, check: { ...end, part: slice.part, reason: mismatch, broken_seq } };
}
