// Verifies the audit log in the browser with the kernel's code: every hash, the head and the checkpoint that the server
// names, and the row that this browser saw last time. Rows are read as a stream and forgotten, so memory is bounded.
import { createChainVerifier, type BreakReason, type ChainHead, type HashedRow } from "../../../kernel/audit/chain.ts";
import { fromHex, toBase64, toHex, utf8 } from "../../../kernel/crypto/bytes.ts";
import { MerkleTree } from "../../../kernel/crypto/merkle.ts";
import { sha256 } from "../../../kernel/crypto/sha256.ts";
import type { Checkpoint } from "../../../kernel/crypto/signed-note.ts";

/** A row that this browser verified before. */
export type SeenRow = { seq: number; hash: string; at: string };

type Expected = {
  workspaceId: string;
  /** What the server says is the newest row, at a time before the rows were read. */
  head: ChainHead;
  checkpoint: Checkpoint | null;
  seen: SeenRow | null;
};

export type ChainVerdict = {
  rows: number;
  /** The last valid row. */
  head: ChainHead;
  broken: { seq: number; reason: BreakReason } | null;
  /** Whether the log still has the row that this browser saw; null if it saw none, or a break is before that row. */
  continues: boolean | null;
};

const sha256Hex = (text: string): string => toHex(sha256(utf8(text)));

/** How long to work before the page may react to the person. */
const WORK_MS = 12;

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

function parseRow(line: string, workspaceId: string): HashedRow | null {
  try {
    const row = JSON.parse(line) as HashedRow;
    return row.workspace_id === workspaceId ? row : null;
  } catch {
    return null;
  }
}

export type OnRows = (rows: number) => void;

export async function verifyRows(
  lines: AsyncIterable<string>,
  { workspaceId, head, checkpoint, seen }: Expected,
  onRows: OnRows = () => {},
): Promise<ChainVerdict> {
  const chain = createChainVerifier(sha256Hex);
  const tree = new MerkleTree(sha256);
  let broken: ChainVerdict["broken"] = null;
  let continues: boolean | null = seen?.seq === 0 ? true : null;
  const fail = (reason: BreakReason, seq = chain.seq + 1): void => {
    broken ??= { reason, seq };
  };
  const compare = (hash: string): void => {
    if (chain.seq === head.seq && hash !== head.hash) fail("head_mismatch", chain.seq);
    if (chain.seq === seen?.seq) continues = hash === seen.hash;
    if (chain.seq === checkpoint?.size && toBase64(tree.root()) !== toBase64(checkpoint.root))
      fail("checkpoint_mismatch", chain.seq);
  };
  let since = performance.now();
  for await (const line of lines) {
    const row = parseRow(line, workspaceId);
    const reason = row ? chain.push(row) : "hash_mismatch";
    if (!row || reason) {
      fail(reason ?? "hash_mismatch");
      break;
    }
    if (checkpoint && tree.size < checkpoint.size) tree.append(fromHex(row.hash));
    compare(row.hash);
    if (broken) break;
    if (performance.now() - since < WORK_MS) continue;
    onRows(chain.checked);
    await pause();
    since = performance.now();
  }
  if (!broken && seen && chain.seq < seen.seq) continues = false;
  if (chain.seq < head.seq) fail("head_mismatch");
  if (checkpoint && chain.seq < checkpoint.size) fail("checkpoint_mismatch");
  onRows(chain.checked);
  return { rows: chain.checked, head: { seq: chain.seq, hash: chain.hash }, broken, continues };
}

/** The lines of a response, as they arrive. */
export async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = parts.pop() ?? "";
      yield* parts;
    }
    if (rest !== "") yield rest;
  } finally {
    void reader.cancel();
  }
}
