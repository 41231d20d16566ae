// Sealed records open only unchanged, and only with the right master key, table and row id.
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

  it("consists of version, salt, nonce, ciphertext and tag, without plaintext", () => {
    const sealed = seal(master, "t", "r", plain);
    expect(sealed[0]).toBe(1);
    expect(sealed.length).toBe(1 + 32 + 12 + plain.length + 16);
    expect(Buffer.from(sealed).includes(plain)).toBe(false);
  });

  it("differs every time", () => {
    expect(seal(master, "t", "r", plain)).not.toEqual(seal(master, "t", "r", plain));
  });

  it("does not open under another master key, in another table or in another row", () => {
    const sealed = seal(master, "t", "r", plain);
    const refused = /authenticate/;
    expect(() => open(randomBytes(32), "t", "r", sealed)).toThrow(refused);
    expect(() => open(master, "u", "r", sealed)).toThrow(refused);
    expect(() => open(master, "t", "s", sealed)).toThrow(refused);
    // The boundary between table and row id is authenticated too.
    expect(() => open(master, "t\0r", "", seal(master, "t", "r\0", plain))).toThrow(refused);
  });

  it("does not open when any byte is changed or cut off", () => {
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
  it("accepts only a master key of 32 bytes", () => {
    expect(() => createVault(Buffer.alloc(31))).toThrow("32 bytes");
    expect(() => createVault(Buffer.alloc(33))).toThrow("32 bytes");
  });

  it("derives a stable key per purpose that differs from the master key", () => {
    const [one, two] = [createVault(master), createVault(master)];
    expect(one.derive("cursors")).toEqual(two.derive("cursors"));
    expect(one.derive("cursors")).not.toEqual(one.derive("throttles"));
    expect(Buffer.from(one.derive("cursors"))).not.toEqual(master);
  });

  it("identifies its master key by a fingerprint", () => {
    expect(createVault(master).fingerprint).toBe(createVault(master).fingerprint);
    expect(createVault(master).fingerprint).not.toBe(createVault(randomBytes(32)).fingerprint);
    expect(createVault(master).fingerprint).toMatch(/^[0-9a-f]{64}$/);
  });
});
