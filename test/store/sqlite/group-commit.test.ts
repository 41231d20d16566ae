// The group commit on SQLite: long batches, a full disk and a busy database.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { connectSqlite } from "../../../src/store/sqlite/open.ts";
import { WalSync } from "../../../src/store/sqlite/wal-sync.ts";
import type { Tx } from "../../../src/store/engine/tx.ts";
import { openGroup } from "../../../harness/databases/sqlite-group.ts";
import { pace } from "../../../harness/waiting.ts";

let dir = "";
let file = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keyrack-test-sqlite-"));
  file = join(dir, "keyrack.db");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

it("yields to the event loop between the jobs of a long batch", async () => {
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

it("stops a batch at the job that requires a rollback, and runs no later job twice", async () => {
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

describe("a full or busy SQLite database", () => {
  it.each(["run", "insertDeferred"] as const)(
    "rejects the whole group when the disk is full, keeps none of its rows, and continues when there is space: %s",
    async (how) => {
      const { driver, group, insert, names } = await openGroup(file);
      await insert("before", "1");
      await driver.execScript("pragma max_page_count = 1"); // clamps to the pages in use
      const inserts = [insert("a", "1"), insert("b", "x".repeat(500_000), how), insert("c", "1", how)];
      const results = await Promise.allSettled(inserts);
      const second = results.slice(1);
      for (const result of second)
        expect(result).toMatchObject({ reason: { failure: "storage_full", status: 503, retryAfterSeconds: 60 } });
      expect(await names()).not.toContain("b");
      expect(await names()).not.toContain("c");
      await driver.execScript("pragma max_page_count = 1000000");
      await insert("after", "x".repeat(500_000));
      expect(await names()).toContain("after");
      await group.close();
      await driver.close();
    },
  );

  it("writes nothing more of a group whose transaction SQLite ended: no job, audit row or head", async () => {
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
    for (const submit of [
      () => ["e", "f"].map((name) => audited(name, null, large)), // the audit rows do not fit
      () => ["a", "b", "c", "d"].map((name) => audited(name, name === "b" ? large : "1", "")), // a job's own row does not fit
    ]) {
      const [, ...together] = await Promise.allSettled(submit()); // the first commits alone and may still fit
      for (const result of together) expect(result).toMatchObject({ reason: { failure: "storage_full" } });
    }
    const outside = connectSqlite(file, { readonly: true, timeout: 0 }); // also sees commits that bypassed the driver
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

  it("continues when the disk is too full for a checkpoint, and checkpoints later", async () => {
    const fatal = vi.fn<(error: unknown) => void>();
    const { driver, group, insert, names } = await openGroup(file, { fatal });
    const full = Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" });
    const checkpoint = vi.spyOn(WalSync.prototype, "checkpoint").mockRejectedValue(full);
    let commits = 0;
    while (checkpoint.mock.calls.length === 0) await insert(`k${commits++}`, "v");
    expect(fatal).not.toHaveBeenCalled();
    checkpoint.mockRestore();
    await insert("after", "v");
    expect(await names()).toHaveLength(commits + 1);
    await group.close();
    await driver.close();
  });

  it("waits for another process's write lock without blocking the event loop", async () => {
    const { driver, group, insert, names } = await openGroup(file);
    const other = new Database(file);
    other.exec("begin immediate");
    vi.useFakeTimers({ toFake: ["Date"] });
    const waiting = insert("patient", "1");
    vi.setSystemTime(Date.now() + 3_600_000); // a clock that is set forward does not end the wait
    for (let i = 0; i < 5; i++) await pace(); // timers still run
    expect(await names()).toEqual([]);
    other.exec("rollback");
    other.close();
    await waiting;
    vi.useRealTimers();
    expect(await names()).toEqual(["patient"]);
    await group.close();
    await driver.close();
  });

  it("rejects with 503 when the lock is held too long, and continues afterwards", async () => {
    const { driver, group, insert, names } = await openGroup(file);
    const other = new Database(file);
    other.exec("begin immediate");
    vi.useFakeTimers({ toFake: ["setTimeout", "performance"] });
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
