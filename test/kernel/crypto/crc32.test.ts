import { crc32 as zlibCrc32 } from "node:zlib";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { crc32, crc32Hex } from "../../../src/kernel/crypto/crc32.ts";

describe("crc32", () => {
  it("gives the check value of CRC-32/ISO-HDLC", () => {
    expect(crc32("123456789")).toBe(0xcbf43926);
    expect(crc32Hex("")).toBe("00000000");
  });

  it("agrees with zlib on any ASCII text, in eight lower-case digits", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary-ascii", maxLength: 200 }), (text) => {
        expect(crc32(text)).toBe(zlibCrc32(text));
        expect(crc32Hex(text)).toBe(zlibCrc32(text).toString(16).padStart(8, "0"));
      }),
    );
  });
});
