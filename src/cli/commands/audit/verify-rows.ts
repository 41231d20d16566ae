// Verifies audit rows from an export or the API, and against checkpoints if there are any. The format is
// docs/audit-format.md; the hashing is the kernel's, the same code that the server runs.
import { hash as digest } from "node:crypto";
import { fromHex, toBase64 } from "../../../kernel/crypto/bytes.ts";
import {
  createChainVerifier,
  type BreakReason,
  type ChainVerifier,
  type HashedRow,
} from "../../../kernel/audit/chain.ts";
import { MerkleTree } from "../../../kernel/crypto/merkle.ts";
import {
  openNote,
  parseCheckpoint,
  parseNote,
  parseVkey,
  splitNotes,
  type VerifierKey,
} from "../../../kernel/crypto/signed-note.ts";
import { sha256Bytes, verifyEd25519 } from "../../../platform/crypto.ts";
import { checkpointBreak } from "../../../store/audit/verify.ts";
import { ExitError } from "../../ui/output.ts";

export type ChainVerdict = {
  workspace_id: string;
  verified: boolean;
  checked: number;
  head_hash: string;
  broken_seq: number | null;
  reason: BreakReason | null;
  /** Number of rows the largest given checkpoint covers; null if none is of this chain. */
  checkpoint_size: number | null;
};

/** Checkpoints of one chain whose signatures are valid, the smallest first. There is at least one. */
export type Checkpoints = { workspace_id: string; expected: { size: number; root: string }[] };

/** Ends the verification before there is a verdict on any chain. */
export class NotVerifiable extends ExitError {
  readonly reason: "checkpoint_mismatch" | "malformed_row";
  constructor(message: string, reason: NotVerifiable["reason"]) {
    super(message, 4);
    this.reason = reason;
  }
}

/**
 * Opens every note of a file. The log has to extend each of them: a thief of the signing key can sign a rewritten
 * log, and only an older note contradicts it. A note that this key did not sign fails the verification.
 */
export function openCheckpoints(text: string, vkeyText: string): Checkpoints {
  const key = parseVkey(vkeyText.trim(), sha256Bytes);
  const workspace_id = /\/audit\/([0-9a-f-]{36})$/.exec(key?.name ?? "")?.[1];
  if (!key || !workspace_id) throw new ExitError("The verifier key is not an Ed25519 key of an audit log.", 2);
  const notes = splitNotes(text);
  if (notes.length === 0) throw new ExitError("The checkpoint file is empty.", 2);
  const expected = notes.map((note, at) => openCheckpoint(note, key, `note ${at + 1} of ${notes.length}`));
  return { workspace_id, expected: expected.toSorted((a, b) => a.size - b.size) };
}

function openCheckpoint(note: string, key: VerifierKey, which: string) {
  if (!parseNote(note)) throw new ExitError(`The checkpoint file is malformed: ${which} is not a signed note.`, 2);
  const text = openNote(note, key, verifyEd25519);
  const checkpoint = text === null ? null : parseCheckpoint(text);
  if (checkpoint?.origin !== key.name)
    throw new NotVerifiable(
      `The checkpoint (${which}) is not signed by this verifier key: checkpoint_mismatch.`,
      "checkpoint_mismatch",
    );
  return { size: checkpoint.size, root: toBase64(checkpoint.root) };
}

type Chain = { verifier: ChainVerifier; tree: MerkleTree; roots: Map<number, string> };

/** Takes rows of any number of chains, each chain in ascending order. */
export class RowVerifier {
  readonly #checkpoints: Checkpoints | undefined;
  readonly #sizes: ReadonlySet<number>;
  readonly #chains = new Map<string, Chain>();

  constructor(checkpoints: Checkpoints | undefined) {
    this.#checkpoints = checkpoints;
    this.#sizes = new Set(checkpoints?.expected.map(({ size }) => size));
    if (checkpoints) this.#noteRoot(this.#chainOf(checkpoints.workspace_id));
  }

  #chainOf(workspace_id: string): Chain {
    let chain = this.#chains.get(workspace_id);
    if (!chain) {
      const verifier = createChainVerifier((text) => digest("sha256", text));
      chain = { verifier, tree: new MerkleTree(sha256Bytes), roots: new Map() };
      this.#chains.set(workspace_id, chain);
    }
    return chain;
  }

  #noteRoot({ tree, roots }: Chain): void {
    if (this.#sizes.has(tree.size)) roots.set(tree.size, toBase64(tree.root()));
  }

  take(row: HashedRow): void {
    const chain = this.#chainOf(row.workspace_id);
    if (chain.verifier.push(row) !== null || this.#checkpoints?.workspace_id !== row.workspace_id) return;
    chain.tree.append(fromHex(row.hash));
    this.#noteRoot(chain);
  }

  verdicts(): ChainVerdict[] {
    return [...this.#chains].map(([workspace_id, { verifier, roots }]) => {
      const expected = this.#checkpoints?.workspace_id === workspace_id ? this.#checkpoints.expected : [];
      const contradicted = verifier.reason === null ? checkpointBreak(expected, roots, verifier.seq) : null;
      return {
        workspace_id,
        verified: verifier.reason === null && contradicted === null,
        checked: verifier.checked,
        head_hash: verifier.hash,
        broken_seq: contradicted ?? verifier.broken_seq,
        reason: contradicted === null ? verifier.reason : "checkpoint_mismatch",
        checkpoint_size: expected.at(-1)?.size ?? null,
      };
    });
  }
}
