// SHA-256 and Ed25519 for the server, on node:crypto. Short inputs are hashed by the kernel instead: for one or two
// blocks the call into OpenSSL costs more than the hash. bench: vendor/get-by-id, parts/check
import { createPublicKey, hash, verify } from "node:crypto";
import { digestSingleBlock } from "../kernel/crypto/key-digest.ts";
import { sha256 } from "../kernel/crypto/sha256.ts";
import { DIGEST } from "../kernel/crypto/sha256-block.ts";

/** DER prefix of a raw 32-byte Ed25519 public key (RFC 8410). */
export const ED25519_SPKI_PREFIX = Buffer.from("302a300506032b6570032100", "hex");

/** The longest input that fits two blocks with its padding. */
const TWO_BLOCKS = 119;

const digestBytes = Buffer.alloc(32);

/** Lower-case hex. Every credential is looked up by it. */
export function sha256Hex(input: string | Uint8Array): string {
  if (typeof input === "string" && digestSingleBlock(input)) {
    for (let i = 0; i < 8; i++) digestBytes.writeInt32BE(DIGEST[i] as number, 4 * i);
    return digestBytes.toString("hex");
  }
  return hash("sha256", input);
}

export function sha256Bytes(bytes: Uint8Array): Uint8Array {
  // By way of hex: Node takes twice as long to return a buffer.
  return bytes.length <= TWO_BLOCKS ? sha256(bytes) : Buffer.from(hash("sha256", bytes), "hex");
}

/** `publicKey` is the raw 32 bytes. */
export function verifyEd25519(publicKey: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
  const der = Buffer.concat([ED25519_SPKI_PREFIX, publicKey]);
  return verify(null, message, createPublicKey({ key: der, format: "der", type: "spki" }), signature);
}
