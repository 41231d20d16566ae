// The server's hashes against node:crypto, on both sides of the bounds where the implementation changes.
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { describe, expect, it } from "vitest";
import { ED25519_SPKI_PREFIX, sha256Bytes, sha256Hex, verifyEd25519 } from "../../src/platform/crypto.ts";

const reference = (input: string | Uint8Array) => createHash("sha256").update(input).digest("hex");

describe("sha256Hex and sha256Bytes", () => {
  it("equal node:crypto at every length across the block bounds", () => {
    for (let length = 0; length <= 200; length++) {
      const text = "k".repeat(length);
      const bytes = new Uint8Array(length).fill(length);
      expect(sha256Hex(text), `text of ${length}`).toBe(reference(text));
      expect(sha256Hex(bytes), `bytes of ${length}`).toBe(reference(bytes));
      expect(Buffer.from(sha256Bytes(bytes)).toString("hex"), `bytes of ${length}`).toBe(reference(bytes));
    }
  });

  it("hash text outside ASCII as UTF-8", () => {
    for (const text of ["é", "日本", "😀".repeat(12)]) expect(sha256Hex(text)).toBe(reference(text));
  });
});

describe("verifyEd25519", () => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const raw = publicKey.export({ format: "der", type: "spki" }).subarray(ED25519_SPKI_PREFIX.length);
  const message = Buffer.from("message");
  const signature = sign(null, message, privateKey);

  it("accepts a signature of the raw public key's pair", () => {
    expect(verifyEd25519(raw, message, signature)).toBe(true);
  });

  it("rejects another message, a changed signature and one of the wrong length", () => {
    const changed = Buffer.from(signature);
    changed[0] = (changed[0] ?? 0) ^ 1;
    expect(verifyEd25519(raw, Buffer.from("other"), signature)).toBe(false);
    expect(verifyEd25519(raw, message, changed)).toBe(false);
    expect(verifyEd25519(raw, message, signature.subarray(1))).toBe(false);
  });
});
