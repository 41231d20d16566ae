import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  concatBytes,
  fromBase64,
  fromHex,
  toBase64,
  toBase64Url,
  toHex,
  utf8,
} from "../../../src/kernel/crypto/bytes.ts";
import { propertyRuns } from "../../../harness/rounds.ts";

const anyBytes = fc.uint8Array({ maxLength: 100 });

describe("hex and base64", () => {
  it("encode like Node's Buffer", () => {
    fc.assert(
      fc.property(anyBytes, (bytes) => {
        const buffer = Buffer.from(bytes);
        expect(toHex(bytes)).toBe(buffer.toString("hex"));
        expect(toBase64(bytes)).toBe(buffer.toString("base64"));
        expect(toBase64Url(bytes)).toBe(buffer.toString("base64url"));
      }),
    );
  });

  it("round-trip", () => {
    fc.assert(
      fc.property(anyBytes, (bytes) => {
        expect(fromHex(toHex(bytes))).toEqual(bytes);
        expect(fromHex(toHex(bytes).toUpperCase())).toEqual(bytes);
        expect(fromBase64(toBase64(bytes))).toEqual(bytes);
      }),
    );
  });

  it("accept only the one base64 spelling of some bytes", () => {
    const nearBase64 = fc.string({ unit: fc.constantFrom(..."AQZaz09+/=-_ \n".split("")), maxLength: 9 });
    fc.assert(
      fc.property(nearBase64, (text) => {
        let bytes: Uint8Array;
        try {
          bytes = fromBase64(text);
        } catch {
          return;
        }
        expect(toBase64(bytes)).toBe(text);
      }),
      { numRuns: propertyRuns(5_000) },
    );
  });

  for (const text of ["AA", "AAA", "AB==", "AAF=", "A===", "====", "AA==\n", " AAAA", "AA-_", "AAA=AAA=", "é==="]) {
    it(`rejects ${JSON.stringify(text)} as base64`, () => {
      expect(() => fromBase64(text)).toThrow(SyntaxError);
    });
  }

  for (const text of ["0", "0g", "0x00", " 00", "00\n"]) {
    it(`rejects ${JSON.stringify(text)} as hex`, () => {
      expect(() => fromHex(text)).toThrow(SyntaxError);
    });
  }

  it("concatBytes equals Buffer.concat", () => {
    fc.assert(
      fc.property(fc.array(anyBytes), (parts) => {
        expect(toHex(concatBytes(parts))).toBe(Buffer.concat(parts).toString("hex"));
      }),
    );
  });

  it("utf8 is UTF-8", () => {
    expect(toHex(utf8("aé€😀"))).toBe("61c3a9e282acf09f9880");
  });
});
