// Authenticated encryption accepts a whole tag only.
import { describe, expect, it } from "vitest";
import { decrypt, encrypt } from "../../../src/domain/vault/aead.ts";

const key = Buffer.alloc(32, 7);

describe("an encrypted record", () => {
  it("decrypts to what was encrypted", () => {
    expect(decrypt(key, encrypt(key, Buffer.from("text"))).toString()).toBe("text");
    expect(decrypt(key, encrypt(key, Buffer.alloc(0)))).toHaveLength(0);
  });

  it("is refused unless its tag has 16 bytes, however short it is", () => {
    for (let bytes = 0; bytes < 16; bytes++)
      expect(() => decrypt(key, Buffer.alloc(bytes, 1)), `${bytes} bytes`).toThrow(/tag length|initialization vector/);
    for (let bytes = 16; bytes < 28; bytes++)
      expect(() => decrypt(key, Buffer.alloc(bytes, 1)), `${bytes} bytes`).toThrow(/authenticate/);
  });
});
