// Reads of heads in rounds: one statement at a time, which began after everyone who gets its result had asked.
import { describe, expect, it } from "vitest";
import { HeadRounds } from "../../../src/domain/policy/head-rounds.ts";
import type { HeadRow } from "../../../src/store/queries/policy.ts";
import { turns } from "../../../harness/waiting.ts";

/** Statements that the test ends one by one, each with the version at its beginning. */
function rounds() {
  const database = { version: 1 };
  const statements: { ids: string[]; end(error?: Error): void }[] = [];
  const read = (ids: string[]): Promise<HeadRow[]> => {
    const rows = ids.map((id) => ({ id, policy_version: database.version }) as HeadRow);
    return new Promise((resolve, reject) => {
      statements.push({ ids, end: (error) => (error ? reject(error) : resolve(rows)) });
    });
  };
  return { reads: new HeadRounds(read), statements, database };
}

describe("reads of heads", () => {
  it("of one turn share a statement, whatever their projects", async () => {
    const { reads, statements } = rounds();
    const asked = ["p", "q", "p"].map((id) => reads.read(id));
    await turns(2);
    expect(statements.map(({ ids }) => ids)).toEqual([["p", "q"]]);
    statements[0]?.end();
    expect((await Promise.all(asked)).map((row) => row?.id)).toEqual(["p", "q", "p"]);
    expect(reads.count).toBe(1);
  });

  it("that come while a statement is in flight wait for the next one, and see what was committed before they came", async () => {
    const { reads, statements, database } = rounds();
    const early = reads.read("p");
    await turns(2);
    database.version = 2;
    const late = Promise.all([reads.read("p"), reads.read("p")]);
    await turns(2);
    expect(statements).toHaveLength(1);
    statements[0]?.end();
    expect((await early)?.policy_version).toBe(1);
    await turns(2);
    statements[1]?.end();
    expect((await late).map((row) => row?.policy_version)).toEqual([2, 2]);
    expect(statements).toHaveLength(2);
  });

  it("fail together, and the next ones do not", async () => {
    const { reads, statements } = rounds();
    const failing = Promise.allSettled([reads.read("p"), reads.read("q")]);
    await turns(2);
    const next = reads.read("p");
    statements[0]?.end(new Error("lost"));
    expect((await failing).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    await turns(2);
    statements[1]?.end();
    expect((await next)?.id).toBe("p");
  });

  it("of an unknown project find nothing", async () => {
    const reads = new HeadRounds(async () => []);
    expect(await reads.read("p")).toBeUndefined();
  });
});
