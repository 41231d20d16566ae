// Mints credentials. The text is returned once and never stored; its hash and display prefix are stored
// (docs/design/0003-key-format-and-digest.md).
import { randomFillSync } from "node:crypto";
import {
  displayPrefix,
  formatApiKey,
  formatCredential,
  formatInviteToken,
  RANDOM_BYTES,
  type CredentialKind,
  type Env,
} from "../../kernel/credentials.ts";
import { sha256Hex } from "../../platform/crypto.ts";

const POOL_SECRETS = 32;

/**
 * Random bytes for one secret at a time, filled for 32 secrets at once: a call for randomness costs more than
 * everything else in minting a key. Bytes are wiped as they are taken; unused ones stay in memory, like the generator's
 * own state. bench: vendor/mint
 */
export function createRandomPool(fill: (bytes: Uint8Array) => void): () => Uint8Array {
  const pool = new Uint8Array(POOL_SECRETS * RANDOM_BYTES);
  let used = pool.length;
  return () => {
    if (used === pool.length) {
      fill(pool);
      used = 0;
    }
    const taken = pool.slice(used, used + RANDOM_BYTES);
    pool.fill(0, used, used + RANDOM_BYTES);
    used += RANDOM_BYTES;
    return taken;
  };
}

const randomSecret = createRandomPool((bytes) => randomFillSync(bytes));

export type NewCredential = { text: string; stored: { lookup_hash: string; display_prefix: string } };

export function mint(kind: CredentialKind, env: Env | null = null): NewCredential {
  return toStore(formatCredential(kind, env, randomSecret()));
}

/** An API key with the prefix of its project. */
export function mintKey(prefix: string, env: Env): NewCredential {
  return toStore(formatApiKey(prefix, env, randomSecret()));
}

function toStore(text: string): NewCredential {
  return { text, stored: { lookup_hash: sha256Hex(text), display_prefix: displayPrefix(text) } };
}

const RETRIES_MAX = 3;

/** Mints again when the hash of a new credential already exists. */
export async function retryOnHashCollision<T>(make: () => Promise<T>): Promise<T> {
  for (let retries = 0; ; retries++) {
    try {
      return await make();
    } catch (error) {
      if (!(error instanceof HashCollision) || retries === RETRIES_MAX) throw error;
    }
  }
}

class HashCollision extends Error {}

/** For `onConflict`: a violated unique index on a hash makes `retryOnHashCollision` mint again. */
export function onHashConflict(target: string): undefined {
  if (target.includes("_hash")) throw new HashCollision();
  return undefined;
}

/** The token of an invitation starts with its workspace id. */
export function mintInvite(workspace_id: string): { text: string; token_hash: string } {
  const text = formatInviteToken(workspace_id, randomSecret());
  return { text, token_hash: sha256Hex(text) };
}
