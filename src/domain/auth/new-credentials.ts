// New credentials: the text is made here, returned once and never stored; what is stored is its hash and display prefix.
import { randomFillSync } from "node:crypto";
import {
  displayPrefix,
  formatCredential,
  formatInviteToken,
  RANDOM_BYTES,
  type CredentialKind,
  type Env,
} from "../../kernel/credentials.ts";
import { sha256Hex } from "../../platform/crypto.ts";

const DRAWN = 32;

/**
 * Random bytes that nobody had before, drawn for some secrets at a time: to ask for randomness costs more than the rest of
 * making a key. What is taken is wiped; what is not yet taken lies in memory, as does the generator's own state.
 */
export function createRandomPool(fill: (bytes: Uint8Array) => void): () => Uint8Array {
  const drawn = new Uint8Array(DRAWN * RANDOM_BYTES);
  let used = drawn.length;
  return () => {
    if (used === drawn.length) {
      fill(drawn);
      used = 0;
    }
    const taken = drawn.slice(used, used + RANDOM_BYTES);
    drawn.fill(0, used, used + RANDOM_BYTES);
    used += RANDOM_BYTES;
    return taken;
  };
}

const fresh = createRandomPool((bytes) => randomFillSync(bytes));

export type NewCredential = { text: string; stored: { lookup_hash: string; display_prefix: string } };

export function mint(kind: CredentialKind, env: Env | null = null): NewCredential {
  const text = formatCredential(kind, env, fresh());
  return { text, stored: { lookup_hash: sha256Hex(text), display_prefix: displayPrefix(text) } };
}

const ATTEMPTS_MAX = 3;

/** Two equal random keys are next to impossible; should it happen, a fresh one is made (decision 39). */
export async function retryOnHashCollision<T>(make: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await make();
    } catch (error) {
      if (!(error instanceof HashCollision) || attempt === ATTEMPTS_MAX) throw error;
    }
  }
}

export class HashCollision extends Error {}

/** For `clash`: a violated unique index on a hash asks for fresh material, any other is not ours to name. */
export function onHashConflict(target: string): undefined {
  if (target.includes("_hash")) throw new HashCollision();
  return undefined;
}

/** An invitation's token carries its workspace in front. */
export function mintInvite(workspace_id: string): { text: string; token_hash: string } {
  const text = formatInviteToken(workspace_id, fresh());
  return { text, token_hash: sha256Hex(text) };
}
