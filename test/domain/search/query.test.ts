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
});
