// Checks audit rows wherever they come from (an export, the API), against a checkpoint when there is one.
// The format is docs/audit-format.md; the arithmetic is the kernel's, the same that the server uses.
import { hash as digest } from "node:crypto";
import { readFileSync } from "node:fs";
import { fromHex, toBase64 } from "../../../kernel/crypto/bytes.ts";
import {
  createChainVerifier,
  type BreakReason,
  type ChainVerifier,
  type HashedRow,
} from "../../../kernel/audit/chain.ts";
import { MerkleTree } from "../../../kernel/crypto/merkle.ts";
import { openNote, parseCheckpoint, parseVkey } from "../../../kernel/crypto/signed-note.ts";
import { ExitError } from "../../ui/output.ts";
import { sha256Bytes, verifyEd25519 } from "../../../platform/crypto.ts";

export type Verdict = {
  workspace_id: string;
  verified: boolean;
  checked: number;
  head_hash: string;
  broken_seq: number | null;
  reason: BreakReason | null;
  /** Rows that the given checkpoint stands for; null without one for this chain. */
  checkpoint_size: number | null;
};

/** A checkpoint that its key has signed. */
export type Signed = { workspace_id: string; size: number; root: string };

export function readNote(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new ExitError(`${file} cannot be read: ${(error as NodeJS.ErrnoException).code}.`, 2);
  }
}

/** Opens a note; one that this key did not sign is a failed verification. */
export function openSigned(note: string, vkeyText: string): Signed {
  const key = parseVkey(vkeyText.trim(), sha256Bytes);
  if (!key) throw new ExitError("The verifier key is not an Ed25519 key of a signed note.", 2);
  const text = openNote(note, key, verifyEd25519);
  const said = text === null ? null : parseCheckpoint(text);
  const workspace_id = /\/audit\/([0-9a-f-]{36})$/.exec(said?.origin ?? "")?.[1];
  if (!said || !workspace_id || said.origin !== key.name)
    throw new ExitError("The checkpoint is not signed by this verifier key: checkpoint_mismatch.", 4);
  return { workspace_id, size: said.size, root: toBase64(said.root) };
}

type Chain = { verifier: ChainVerifier; tree: MerkleTree; root: string | null };

/** Takes rows of any number of chains, each in ascending order. */
export class LogCheck {
  readonly #signed: Signed | undefined;
  readonly #chains = new Map<string, Chain>();

  constructor(signed: Signed | undefined) {
    this.#signed = signed;
    if (signed) this.#chainOf(signed.workspace_id);
  }

  #chainOf(workspace_id: string): Chain {
    let chain = this.#chains.get(workspace_id);
    if (!chain) {
      const tree = new MerkleTree(sha256Bytes);
      const root = this.#signed?.size === 0 ? toBase64(tree.root()) : null;
      chain = { verifier: createChainVerifier((text) => digest("sha256", text)), tree, root };
      this.#chains.set(workspace_id, chain);
    }
    return chain;
  }

  take(row: HashedRow): void {
    const chain = this.#chainOf(row.workspace_id);
    if (chain.verifier.push(row) !== null || this.#signed?.workspace_id !== row.workspace_id) return;
    if (chain.tree.size >= this.#signed.size) return;
    chain.tree.append(fromHex(row.hash));
    if (chain.tree.size === this.#signed.size) chain.root = toBase64(chain.tree.root());
  }

  verdicts(): Verdict[] {
    return [...this.#chains].map(([workspace_id, { verifier, root }]) => {
      const signed = this.#signed?.workspace_id === workspace_id ? this.#signed : undefined;
      const missed = signed && verifier.reason === null && root !== signed.root;
      const broken_seq = missed ? Math.min(signed.size, verifier.seq + 1) : verifier.broken_seq;
      return {
        workspace_id,
        verified: verifier.reason === null && !missed,
        checked: verifier.checked,
        head_hash: verifier.hash,
        broken_seq,
        reason: missed ? "checkpoint_mismatch" : verifier.reason,
        checkpoint_size: signed?.size ?? null,
      };
    });
  }
}
