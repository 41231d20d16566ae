// Sealed records: only the right master key, table and row open them, and only unchanged.
import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { createVault, open, seal } from "../../../src/domain/vault/vault.ts";

const master = Buffer.alloc(32, 7);
const plain = Buffer.from("a private key");

describe("a sealed record", () => {
  it("opens to what was sealed", () => {
    const vault = createVault(master);
    const sealed = vault.seal("signing_keys", "row", plain);
    expect(Buffer.from(vault.open("signing_keys", "row", sealed))).toEqual(plain);
    expect(Buffer.from(open(master, "signing_keys", "row", sealed))).toEqual(plain);
  });

  it("holds version, salt, nonce, ciphertext and tag, and nothing readable", () => {
    const sealed = seal(master, "t", "r", plain);
    expect(sealed[0]).toBe(1);
    expect(sealed.length).toBe(1 + 32 + 12 + plain.length + 16);
    expect(Buffer.from(sealed).includes(plain)).toBe(false);
  });

  it("is never the same twice", () => {
    expect(seal(master, "t", "r", plain)).not.toEqual(seal(master, "t", "r", plain));
  });

  it("does not open under another master key, in another table or in another row", () => {
    const sealed = seal(master, "t", "r", plain);
    const refused = /authenticate/;
    expect(() => open(randomBytes(32), "t", "r", sealed)).toThrow(refused);
    expect(() => open(master, "u", "r", sealed)).toThrow(refused);
    expect(() => open(master, "t", "s", sealed)).toThrow(refused);
    // A table and a row that only together spell the same must not stand for each other.
    expect(() => open(master, "t\0r", "", seal(master, "t", "r\0", plain))).toThrow(refused);
  });

  it("does not open with any one byte changed, nor shortened", () => {
    const sealed = seal(master, "t", "r", plain);
    for (let i = 0; i < sealed.length; i++) {
      const changed = Uint8Array.from(sealed);
      changed[i] = (changed[i] ?? 0) ^ 1;
      expect(() => open(master, "t", "r", changed), `byte ${i}`).toThrow(/authenticate|not readable/);
      expect(() => open(master, "t", "r", sealed.subarray(0, i)), `first ${i} bytes`).toThrow(
        /authenticate|not readable/,
      );
    }
  });
});

describe("the vault", () => {
  it("takes a master key of 32 bytes only", () => {
    expect(() => createVault(Buffer.alloc(31))).toThrow("32 bytes");
    expect(() => createVault(Buffer.alloc(33))).toThrow("32 bytes");
  });

  it("derives one key for each purpose, the same at every start, and none that is the master key", () => {
    const [one, two] = [createVault(master), createVault(master)];
    expect(one.derive("cursors")).toEqual(two.derive("cursors"));
    expect(one.derive("cursors")).not.toEqual(one.derive("throttles"));
    expect(Buffer.from(one.derive("cursors"))).not.toEqual(master);
  });

  it("knows its master key again by a fingerprint that is none of its other keys", () => {
    expect(createVault(master).fingerprint).toBe(createVault(master).fingerprint);
    expect(createVault(master).fingerprint).not.toBe(createVault(randomBytes(32)).fingerprint);
    expect(createVault(master).fingerprint).toMatch(/^[0-9a-f]{64}$/);
  });
});
