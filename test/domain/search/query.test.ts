// The words of a search: a search with more of them than are compared must not find what does not match.
import { describe, expect, it } from "vitest";
import { parseKeySearch, parseTenantSearch } from "../../../src/domain/search/query.ts";

describe("the words of a search", () => {
  it("are at most five; more are refused, not left out", () => {
    const details = [{ path: "q", message: "must have at most 5 words" }];
    for (const parse of [parseKeySearch, parseTenantSearch]) {
      expect(parse("a b c d e")).toEqual({ kind: "words", words: ["a", "b", "c", "d", "e"] });
      expect(() => parse("a b c d e f")).toThrow(expect.objectContaining({ extra: { details } }));
    }
  });

  it("count once, however often one is repeated", () => {
    const words = { kind: "words", words: ["alpha", "zzz"] };
    expect(parseKeySearch("alpha ALPHA alpha alpha alpha zzz")).toEqual(words);
  });
});
