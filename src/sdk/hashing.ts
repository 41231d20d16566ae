// SHA-256 and HMAC for idempotency and the cache file: node:crypto where it exists, the kernel's implementation on
// other runtimes. Both give the same result. `verify` does not use this file.

import { concatBytes, toHex, utf8 } from "../kernel/crypto/bytes.ts";
import { sha256 } from "../kernel/crypto/sha256.ts";
import { builtinModule } from "./builtins.ts";

const BLOCK = 64;

export function sha256HexParts(parts: readonly (string | Uint8Array)[]): string {
  const node = builtinModule("node:crypto");
  if (!node) return toHex(sha256(concatParts(parts)));
  const hash = node.createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest("hex");
}

export function hmacHexParts(key: string, parts: readonly (string | Uint8Array)[]): string {
  const node = builtinModule("node:crypto");
  if (node) {
    const mac = node.createHmac("sha256", key);
    for (const part of parts) mac.update(part);
    return mac.digest("hex");
  }
  const bytes = utf8(key);
  const block = new Uint8Array(BLOCK);
  block.set(bytes.length > BLOCK ? sha256(bytes) : bytes);
  const inner = sha256(concatParts([block.map((byte) => byte ^ 0x36), ...parts]));
  return toHex(sha256(concatParts([block.map((byte) => byte ^ 0x5c), inner])));
}

function concatParts(parts: readonly (string | Uint8Array)[]): Uint8Array {
  return concatBytes(parts.map((part) => (typeof part === "string" ? utf8(part) : part)));
}
