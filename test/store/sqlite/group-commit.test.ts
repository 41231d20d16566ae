// The group commit on SQLite: what a batch does to others, and what a full or busy disk does to it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { connectSqlite } from "../../../src/store/sqlite/open.ts";
import { WalSync } from "../../../src/store/sqlite/wal-sync.ts";
import type { Tx } from "../../../src/store/engine/statement.ts";
import { openGroup } from "../../../harness/databases/sqlite-group.ts";

let dir = "";
let file = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keyrack-test-sqlite-"));
  file = join(dir, "keyrack.db");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

it("serves others between the jobs of a long batch", async () => {
  const { driver, group } = await openGroup(file);
  const slow = () =>
    group.submit({
      chains: [],
      batch: true,
      work: async () => {
        for (const until = performance.now() + 5; performance.now() < until; );
        return { value: null, entries: [] };
      },
    });
  const jobs = Array.from({ length: 20 }, slow);
  let turns = 0;
  const count = (): void => {
    turns++;
    next = setImmediate(count);
  };
  let next = setImmediate(count);
  await Promise.all(jobs);
  clearImmediate(next);
  expect(turns).toBeGreaterThan(10);
  await group.close();
  await driver.close();
});

it("runs a batch again only as far as it had come when one of its jobs spoilt it", async () => {
  const { driver, group, names } = await openGroup(file);
  let runs = 0;
  const insert = (name: string) =>
    group.submit({
      chains: [],
      batch: true,
      work: async (tx: Tx) => {
        runs++;
        await tx.run({ sql: "insert into deployment (name, value) values (?, ?)", values: [name, "1"] });
        return { value: name, entries: [] };
      },
    });
  const clashes = ["n0", "n1", "n0", ...Array.from({ length: 100 }, (_, i) => `m${i}`)];
  const results = await Promise.allSettled(clashes.map(insert));
  expect(results.flatMap(({ status }, i) => (status === "rejected" ? [i] : []))).toEqual([2]);
  expect(runs).toBeLessThan(clashes.length + 5);
  expect(await names()).toHaveLength(102);
  await group.close();
  await driver.close();
});

describe("a SQLite disk in trouble", () => {
  it.each(["run", "insertDeferred"] as const)(
    "refuses the whole group when it is full, leaves nothing of it, and goes on when there is room: %s",
    async (how) => {
      const { driver, group, insert, names } = await openGroup(file);
      await insert("before", "1");
      await driver.execScript("pragma max_page_count = 1"); // clamps to the pages in use
      const asked = [insert("a", "1"), insert("b", "x".repeat(500_000), how), insert("c", "1", how)];
      const results = await Promise.allSettled(asked);
      const second = results.slice(1);
      for (const result of second) expect(result).toMatchObject({ reason: { failure: "storage_full", status: 503 } });
      expect(await names()).not.toContain("b");
      expect(await names()).not.toContain("c");
      await driver.execScript("pragma max_page_count = 1000000");
      await insert("after", "x".repeat(500_000));
      expect(await names()).toContain("after");
      await group.close();
      await driver.close();
    },
  );

  it("takes nothing more of a group whose transaction SQLite ended: no job, no audit row, no head", async () => {
    const { driver, group, names } = await openGroup(file);
    const workspace_id = "00000000-0000-0000-0000-000000000000";
    const audited = (name: string, value: string | null, text: string) =>
      group.submit({
        chains: [workspace_id],
        batch: true,
        work: async (tx: Tx) => {
          const sql = "insert into deployment (name, value) values (?, ?)";
          if (value !== null) await tx.run({ sql, values: [name, value] });
          const who = { actor_type: "system" as const, actor_id: null, target_type: "x", target_id: null };
          return { value: name, entries: [{ workspace_id, id: name, ...who, action: "x", payload: { text } }] };
        },
      });
    await audited("before", "1", "");
    const before = await names();
    await driver.execScript("pragma max_page_count = 1"); // clamps to the pages in use
    const large = "x".repeat(500_000);
    for (const ask of [
      () => ["e", "f"].map((name) => audited(name, null, large)), // the audit rows do not fit
      () => ["a", "b", "c", "d"].map((name) => audited(name, name === "b" ? large : "1", "")), // what a job writes
    ]) {
      const [, ...together] = await Promise.allSettled(ask()); // the first runs alone, and may find room
      for (const result of together) expect(result).toMatchObject({ reason: { failure: "storage_full" } });
    }
    const outside = connectSqlite(file, { readonly: true, timeout: 0 }); // sees what was committed past the driver, too
    const all = outside.prepare("select name from deployment").pluck().all() as string[];
    const left = all.filter((name) => !before.includes(name));
    expect(["a"]).toEqual(expect.arrayContaining(left));
    const state = outside
      .prepare(
        "select (select seq from audit_heads) as head, (select max(seq) from audit_log) as newest, (select count(*) from audit_log) as n",
      )
      .get();
    outside.close();
    expect(state).toEqual({ head: 1 + left.length, newest: 1 + left.length, n: 1 + left.length });
    await group.close();
    await driver.close();
  });

  it("goes on when there is no room for a checkpoint, and checkpoints when there is", async () => {
    const fatal = vi.fn<(error: unknown) => void>();
    const { driver, group, insert, names } = await openGroup(file, { fatal });
    const full = Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" });
    const checkpoint = vi.spyOn(WalSync.prototype, "checkpoint").mockRejectedValue(full);
    for (let i = 0; i < 250; i++) await insert(`k${i}`, "v");
    expect(checkpoint).toHaveBeenCalled();
    expect(fatal).not.toHaveBeenCalled();
    checkpoint.mockRestore();
    await insert("after", "v");
    expect(await names()).toHaveLength(251);
    await group.close();
    await driver.close();
  });

  it("waits for another process's write lock without stopping the event loop", async () => {
    const { driver, group, insert, names } = await openGroup(file);
    const other = new Database(file);
    other.exec("begin immediate");
    const waiting = insert("patient", "1");
    for (let i = 0; i < 5; i++) await new Promise((resolve) => setTimeout(resolve, 1)); // timers still run
    expect(await names()).toEqual([]);
    other.exec("rollback");
    other.close();
    await waiting;
    expect(await names()).toEqual(["patient"]);
    await group.close();
    await driver.close();
  });

  it("answers 503 when the lock is held for longer than it may wait, and goes on afterwards", async () => {
    const { driver, group, insert, names } = await openGroup(file);
    const other = new Database(file);
    other.exec("begin immediate");
    vi.useFakeTimers({ toFake: ["setTimeout", "Date"] });
    const outcome = insert("impatient", "1").catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(6_000);
    expect(await outcome).toMatchObject({ failure: "unavailable" });
    vi.useRealTimers();
    other.close();
    await insert("later", "1");
    expect(await names()).toEqual(["later"]);
    await group.close();
    await driver.close();
  });
});
