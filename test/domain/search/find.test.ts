// A search leaves the event loop to others between its pieces of work.
import { afterEach, describe, expect, it, vi } from "vitest";
import { findPage, type Candidate } from "../../../src/domain/search/find.ts";

describe("finding a page", () => {
  afterEach(() => void vi.restoreAllMocks());

  it("counts the time of a read: after a long one it yields at the first candidate", async () => {
    let now = 0;
    vi.spyOn(performance, "now").mockImplementation(() => now);
    let turn = 0;
    const turns: { read: number; examined: number[] } = { read: -1, examined: [] };
    const count = (): void => {
      turn++;
      if (turns.examined.length < 3) setImmediate(count);
    };
    setImmediate(count);
    const candidates = ["a", "b", "c"].map((record): Candidate<string> => {
      return { record, position: [record], isFound: () => turns.examined.push(turn) > 0 };
    });
    const read = async () => {
      now += 10; // SQLite reads synchronously
      turns.read = turn;
      return { candidates, last: null };
    };
    const { found } = await findPage({ shape: ["string"], read }, 10, null);
    expect(found.map(({ record }) => record)).toEqual(["a", "b", "c"]);
    expect(turns.examined.slice(1).every((at) => at > turns.read)).toBe(true);
  });
});
