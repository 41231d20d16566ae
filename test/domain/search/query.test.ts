// The words of a search: every one must match.
import { describe, expect, it } from "vitest";
import { parseKeySearch, parseTenantSearch } from "../../../src/domain/search/query.ts";

describe("the words of a search", () => {
  it("are all compared, the longest first", () => {
    const words = ["eee", "ff", "a", "b", "c", "d"];
    for (const parse of [parseKeySearch, parseTenantSearch])
      expect(parse("a b c d eee ff")).toEqual({ kind: "words", words });
  });

  it("count once, however often one is repeated", () => {
    const words = { kind: "words", words: ["alpha", "zzz"] };
    expect(parseKeySearch("alpha ALPHA alpha alpha alpha zzz")).toEqual(words);
  });

  it("are at most sixteen different ones: no word is left out of the comparison", () => {
    const sixteen = Array.from({ length: 16 }, (_, i) => `w${i}`);
    for (const parse of [parseKeySearch, parseTenantSearch]) {
      expect(parse([...sixteen, "w3", "W4"].join(" "))).toMatchObject({ kind: "words" });
      const details = [{ path: "q", message: "must have at most 16 words" }];
      const refused = expect.objectContaining({ failure: "invalid_query", extra: { details } });
      expect(() => parse([...sixteen, "w3", "zzz"].join(" "))).toThrow(refused);
    }
  });
});

describe("a key in a search", () => {
  const refusal = (q: string): unknown => {
    try {
      return parseKeySearch(q);
    } catch (error) {
      return error;
    }
  };

  it("is referred to the lookup if it is whole, or nearly", () => {
    for (const q of [`kr_live_${"x".repeat(40)}`, `name acme_test_${"x".repeat(40)}`, `kr_live_${"x".repeat(32)}`])
      expect(refusal(q), q).toMatchObject({ failure: "credential_in_query", extra: { details: [{ path: "q" }] } });
  });

  it("may be typed up to the end of its display prefix, and no further", () => {
    expect(parseKeySearch("kr_live_abcdef")).toMatchObject({ kind: "prefix" });
    const message = "must have at most six characters of a key after its prefix";
    for (const q of ["kr_live_abcdefg", "kr_live_abcdefghijkl"])
      expect(refusal(q), q).toMatchObject({ failure: "invalid_query", extra: { details: [{ path: "q", message }] } });
  });
});
