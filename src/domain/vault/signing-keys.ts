// Ed25519 signing keys, with the private key sealed by the master key. Caution: the checkpoint key is created once per
// database; two processes that start at the same time must end up with the same one.
import { createPrivateKey, createPublicKey, generateKeyPairSync, sign, type KeyObject } from "node:crypto";
import { canonicalize } from "../../kernel/audit/canonical.ts";
import { claimFact } from "../../store/queries/deployment.ts";
import { getFact } from "../core/facts.ts";
import { insertSigningKey, signingKeyById } from "../../store/queries/signing-keys.ts";
import type { SigningKeyRow } from "../../store/schema/tables.ts";
import type { Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import { ED25519_SPKI_PREFIX, sha256Hex } from "../../platform/crypto.ts";

const TABLE = "signing_keys";

type Signer = {
  readonly kid: string;
  /** The raw 32 bytes. */
  readonly publicKey: Uint8Array;
  sign(message: Uint8Array): Uint8Array;
};

/** A new key pair as a row, not yet stored. It may sign from `active_from` on; null for a standby. */
export function newSigningKeyRow(
  services: Services,
  purpose: SigningKeyRow["purpose"],
  active_from: number | null,
): SigningKeyRow {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const id = services.newId();
  const now = services.clock.now();
  const x = publicKey.export({ format: "jwk" }).x ?? "";
  return {
    id,
    purpose,
    kid: thumbprint(x),
    public_key: x,
    sealed_private_key: services.vault.seal(TABLE, id, privateKey.export({ format: "der", type: "pkcs8" })),
    created_at: now,
    published_at: now,
    active_from,
    retired_at: null,
    removed_at: null,
  };
}

/** RFC 7638 thumbprint of an Ed25519 key, in base64url. */
export function thumbprint(x: string): string {
  return Buffer.from(sha256Hex(canonicalize({ crv: "Ed25519", kty: "OKP", x })), "hex").toString("base64url");
}

export function openPrivateKey(services: Services, row: SigningKeyRow): KeyObject {
  if (!row.sealed_private_key) throw new Error(`signing key ${row.kid} has no private key any more`);
  const der = services.vault.open(TABLE, row.id, row.sealed_private_key);
  return createPrivateKey({ key: Buffer.from(der), format: "der", type: "pkcs8" });
}

/**
 * Derives the public key from the private one: the public_key column could have been changed without the master key.
 */
export function openSigner(services: Services, row: SigningKeyRow): Signer {
  const key = openPrivateKey(services, row);
  const publicKey = rawPublicKey(createPublicKey(key));
  return { kid: row.kid, publicKey, sign: (message) => sign(null, message, key) };
}

function rawPublicKey(key: KeyObject): Uint8Array {
  return new Uint8Array(key.export({ format: "der", type: "spki" }).subarray(ED25519_SPKI_PREFIX.length));
}

/** Creates the key that signs audit checkpoints, unless this database has one. */
export async function ensureCheckpointKey(services: Services): Promise<void> {
  if ((await getFact(services.store.read, "checkpoint_key_id")) !== undefined) return;
  const row = newSigningKeyRow(services, "checkpoint", services.clock.now());
  await record(services, async (tx) => {
    // The first process to claim the fact stores its key; the others discard theirs.
    const claimed = await claimFact.run(tx, { name: "checkpoint_key_id", value: row.id });
    if (claimed === 1) await insertSigningKey.run(tx, row);
  });
}

export async function loadCheckpointSigner(services: Services): Promise<Signer> {
  await ensureCheckpointKey(services);
  const id = await getFact(services.store.read, "checkpoint_key_id");
  const row = id === undefined ? undefined : await signingKeyById.first(services.store.read, { id });
  if (!row) throw new Error("the checkpoint key is missing from the database");
  return openSigner(services, row);
}
