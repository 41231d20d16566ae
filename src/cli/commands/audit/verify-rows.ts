// Verifies audit rows from an export or the API, and against a checkpoint if there is one. The format is
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
import { openNote, parseCheckpoint, parseVkey } from "../../../kernel/crypto/signed-note.ts";
import { sha256Bytes, verifyEd25519 } from "../../../platform/crypto.ts";
import { ExitError } from "../../ui/output.ts";

export type Verdict = {
  workspace_id: string;
  verified: boolean;
  checked: number;
  head_hash: string;
  broken_seq: number | null;
  reason: BreakReason | null;
  /** Number of rows the given checkpoint covers; null if it is not of this chain. */
  checkpoint_size: number | null;
};

/** A checkpoint whose signature is valid. */
export type Checkpoint = { workspace_id: string; size: number; root: string };

/** Ends the verification before there is a verdict on any chain. */
export class NotVerifiable extends ExitError {
  readonly reason: "checkpoint_mismatch" | "malformed_row";
  constructor(message: string, reason: NotVerifiable["reason"]) {
    super(message, 4);
    this.reason = reason;
  }
}

/** Parses a note and checks its signature. A note that this key did not sign fails the verification. */
export function openCheckpoint(note: string, vkeyText: string): Checkpoint {
  const key = parseVkey(vkeyText.trim(), sha256Bytes);
  if (!key) throw new ExitError("The verifier key is not an Ed25519 signed-note key.", 2);
  const text = openNote(note, key, verifyEd25519);
  const parsed = text === null ? null : parseCheckpoint(text);
  const workspace_id = /\/audit\/([0-9a-f-]{36})$/.exec(parsed?.origin ?? "")?.[1];
  if (!parsed || !workspace_id || parsed.origin !== key.name)
    throw new NotVerifiable(
      "The checkpoint is not signed by this verifier key: checkpoint_mismatch.",
      "checkpoint_mismatch",
    );
  return { workspace_id, size: parsed.size, root: toBase64(parsed.root) };
}

type Chain = { verifier: ChainVerifier; tree: MerkleTree; root: string | null };

/** Takes rows of any number of chains, each chain in ascending order. */
export class RowVerifier {
  readonly #checkpoint: Checkpoint | undefined;
  readonly #chains = new Map<string, Chain>();

  constructor(checkpoint: Checkpoint | undefined) {
    this.#checkpoint = checkpoint;
    if (checkpoint) this.#chainOf(checkpoint.workspace_id);
  }

  #chainOf(workspace_id: string): Chain {
    let chain = this.#chains.get(workspace_id);
    if (!chain) {
      const tree = new MerkleTree(sha256Bytes);
      const root = this.#checkpoint?.size === 0 ? toBase64(tree.root()) : null;
      chain = { verifier: createChainVerifier((text) => digest("sha256", text)), tree, root };
      this.#chains.set(workspace_id, chain);
    }
    return chain;
  }

  take(row: HashedRow): void {
    const chain = this.#chainOf(row.workspace_id);
    if (chain.verifier.push(row) !== null || this.#checkpoint?.workspace_id !== row.workspace_id) return;
    if (chain.tree.size >= this.#checkpoint.size) return;
    chain.tree.append(fromHex(row.hash));
    if (chain.tree.size === this.#checkpoint.size) chain.root = toBase64(chain.tree.root());
  }

  verdicts(): Verdict[] {
    return [...this.#chains].map(([workspace_id, { verifier, root }]) => {
      const checkpoint = this.#checkpoint?.workspace_id === workspace_id ? this.#checkpoint : undefined;
      const mismatch = checkpoint && verifier.reason === null && root !== checkpoint.root;
      const broken_seq = mismatch ? Math.min(checkpoint.size, verifier.seq + 1) : verifier.broken_seq;
      return {
        workspace_id,
        verified: verifier.reason === null && !mismatch,
        checked: verifier.checked,
        head_hash: verifier.hash,
        broken_seq,
        reason: mismatch ? "checkpoint_mismatch" : verifier.reason,
        checkpoint_size: checkpoint?.size ?? null,
      };
    });
  }
}
