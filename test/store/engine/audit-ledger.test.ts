// Appending audit rows, on a transaction that only records writes: no failed write may go unnoticed.
import { describe, expect, it } from "vitest";
import { GENESIS_HASH } from "../../../src/kernel/audit/chain.ts";
import { appendEntries, prepareEntries, type AuditHeads } from "../../../src/store/engine/audit-ledger.ts";
import { LoopShare } from "../../../src/platform/event-loop.ts";
import type { Query, Row, Tx } from "../../../src/store/engine/tx.ts";

const entry = (workspace_id: string, id: string) => {
  const target = { action: "tenant.created", target_type: "tenant", target_id: null };
  return { workspace_id, id, actor_type: "system" as const, actor_id: null, payload: { b: 1, a: 2 }, ...target };
};
const at = (now: number) => ({ now, loop: new LoopShare() });
const headsOf = (...ids: string[]): AuditHeads =>
  new Map(ids.map((workspace_id) => [workspace_id, { workspace_id, seq: 4, hash: GENESIS_HASH, occurred_at: 50 }]));

function transaction(failing = "nothing") {
  const written: string[] = [];
  const note = async (what: string): Promise<number> => {
    await Promise.resolve();
    written.push(what);
    if (what === failing) throw new Error(`no ${what}`);
    return 1;
  };
  const run = ({ sql }: Query): Promise<number> => note(sql.startsWith("update") ? "head" : sql);
  const insertMany = async (sql: string, rows: readonly Row[]): Promise<void> => {
    for (const _ of rows) await note(sql.startsWith("insert") ? "row" : sql);
  };
  return { tx: { dialect: "sqlite", run, insertMany } as unknown as Tx, written };
}

describe("appending to the chains", () => {
  it("chains each entry to its head, writes each head once, and waits for every write", async () => {
    const heads = headsOf("a", "b");
    const { tx, written } = transaction();
    await appendEntries(tx, heads, prepareEntries(heads, [entry("a", "1"), entry("b", "2"), entry("a", "3")]), at(40));
    expect(written.toSorted()).toEqual(["head", "head", "row", "row", "row"]);
    const [a, b] = [heads.get("a")!, heads.get("b")!];
    expect([a.seq, b.seq, a.occurred_at]).toEqual([6, 5, 50]);
    expect(new Set([a.hash, b.hash, GENESIS_HASH]).size).toBe(3);
  });

  it("yields to the event loop between the pieces of a change with many entries", async () => {
    const heads = headsOf("a");
    const { tx, written } = transaction();
    const writtenAtYields: number[] = [];
    const loop = { yieldIfDue: async () => void writtenAtYields.push(written.length) } as LoopShare;
    const entries = Array.from({ length: 500 }, (_, i) => entry("a", String(i)));
    await appendEntries(tx, heads, prepareEntries(heads, entries), { now: 60, loop });
    expect(writtenAtYields).toEqual([201, 402]);
    expect([heads.get("a")?.seq, written.filter((what) => what === "row").length]).toEqual([504, 500]);
  });

  for (const failing of ["row", "head"]) {
    it(`fails when a ${failing} cannot be written`, async () => {
      const heads = headsOf("a");
      const { tx } = transaction(failing);
      await expect(appendEntries(tx, heads, prepareEntries(heads, [entry("a", "1")]), at(60))).rejects.toThrow(
        `no ${failing}`,
      );
    });
  }

  it("rejects an entry of a chain that is not locked", () => {
    expect(() => prepareEntries(headsOf("a"), [entry("b", "1")])).toThrow("no audit head");
  });
});
