import { createHash, randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { toHex, utf8 } from "../../../src/kernel/crypto/bytes.ts";
import { sha256 } from "../../../src/kernel/crypto/sha256.ts";

const sha256Hex = (input: string | Uint8Array) => toHex(sha256(typeof input === "string" ? utf8(input) : input));
const reference = (input: string | Uint8Array) => createHash("sha256").update(input).digest("hex");

describe("sha256", () => {
  // NIST CAVP and FIPS 180-4 examples.
  for (const [name, text, digest] of [
    ["nothing", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
    ["one block", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
    [
      "two blocks",
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
    ],
    [
      "112 bytes",
      "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1",
    ],
    ["a million a", "a".repeat(1_000_000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"],
  ] as const) {
    it(`gives the published digest of ${name}`, () => {
      expect(sha256Hex(text)).toBe(digest);
    });
  }

  it("equals node:crypto at every length around the block boundaries", () => {
    for (let length = 0; length <= 260; length++) {
      const bytes = randomBytes(length);
      expect(toHex(sha256(bytes)), `length ${length}`).toBe(reference(bytes));
    }
  });

  it("equals node:crypto on any bytes and any text", () => {
    const anyInput = fc.oneof(fc.uint8Array({ maxLength: 1000 }), fc.string({ unit: "binary" }));
    fc.assert(
      fc.property(anyInput, (input) => {
        expect(sha256Hex(input)).toBe(reference(input));
      }),
    );
  });

  it("reads a view into a larger buffer from its own offset", () => {
    const bytes = Uint8Array.from({ length: 100 }, (_, i) => i);
    expect(sha256Hex(bytes.subarray(10, 70))).toBe(reference(bytes.slice(10, 70)));
  });
});
