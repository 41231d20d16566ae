// What a change of many keys costs: every other writer waits for its transaction.
import { describe, expect, it } from "vitest";
import { moveUses } from "../../../src/domain/search/changes.ts";
import type { Query, Tx } from "../../../src/store/engine/tx.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

describe("keys that are used on another day", () => {
  it("are moved in the index by few statements, however many there are", async () => {
    const statements: string[] = [];
    const run = async ({ sql }: Query) => statements.push(sql);
    const key = (i: number) => ({ id: `k${i}`, env: "live" as const, created_at: 0, last_used_at: null });
    const uses = Array.from({ length: 5_000 }, (_, i) => [key(i), 3 * DAY_MS] as const);
    const stored = uses.map(([each]) => each);
    const all = async ({ sql }: Query) => (statements.push(sql), stored.splice(0, 512));
    const tx = { dialect: "postgres", run, all } as unknown as Tx;
    await moveUses(tx, "w", uses);
    expect(statements.length).toBeLessThan(100);
    expect(statements.filter((sql) => sql.startsWith("delete"))).toHaveLength(1);
  });
});
