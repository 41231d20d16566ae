// Authenticated encryption of small records: AES-256-GCM, laid out as nonce (12 bytes) | ciphertext | tag (16 bytes).
// Caution: random 96-bit nonces are safe only while few records share a key, so callers derive a key per record.
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, type BinaryLike } from "node:crypto";

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_BYTES = 32;

/** The bytes that encryption adds to its plaintext. */
export const OVERHEAD_BYTES = NONCE_BYTES + TAG_BYTES;

/** HKDF-SHA-256 of a secret. */
export function deriveKey(secret: BinaryLike, salt: BinaryLike, info: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, salt, info, KEY_BYTES));
}

/** `aad` is authenticated and not stored: decryption needs the same bytes. */
export function encrypt(key: Uint8Array, plain: Uint8Array, aad?: Uint8Array): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce);
  if (aad) cipher.setAAD(aad);
  const body = Buffer.concat([cipher.update(plain), cipher.final()]);
  return Buffer.concat([nonce, body, cipher.getAuthTag()]);
}

/** Throws when the key, the `aad` or any byte differs. */
export function decrypt(key: Uint8Array, sealed: Uint8Array, aad?: Uint8Array): Buffer {
  const bodyEnd = sealed.length - TAG_BYTES;
  // Without the option a tag of four bytes would do, as of a text that is too short.
  const nonce = sealed.subarray(0, NONCE_BYTES);
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG_BYTES });
  if (aad) decipher.setAAD(aad);
  decipher.setAuthTag(sealed.subarray(bodyEnd));
  return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, bodyEnd)), decipher.final()]);
}
