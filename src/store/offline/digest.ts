// SHA-256 of bytes as bytes.
import { hash } from "node:crypto";
import { sha256 } from "../../kernel/crypto/sha256.ts";

/** Up to here, two blocks, to call OpenSSL costs more than our own takes. */
const SHORT = 119;

export function sha256Bytes(bytes: Uint8Array): Uint8Array {
  // By way of hex: asking node for a buffer takes it twice as long.
  return bytes.length <= SHORT ? sha256(bytes) : Buffer.from(hash("sha256", bytes), "hex");
}
