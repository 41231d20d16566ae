// SHA-256 in lower hex: how every credential is looked up.
import { createHash, hash } from "node:crypto";
import { digestSingleBlock } from "../../kernel/crypto/key-digest.ts";
import { DIGEST } from "../../kernel/crypto/sha256-block.ts";

const shortDigest = Buffer.alloc(32);

/**
 * Credentials fit in one SHA-256 block and are hashed in JavaScript: a call into OpenSSL takes several times as long.
 * bench: vendor/get-by-id
 */
export function sha256(text: string | Uint8Array): string {
  if (typeof text === "string" && digestSingleBlock(text)) {
    for (let i = 0; i < 8; i++) shortDigest.writeInt32BE(DIGEST[i] as number, 4 * i);
    return shortDigest.toString("hex");
  }
  return typeof text === "string" ? hash("sha256", text) : createHash("sha256").update(text).digest("hex");
}
