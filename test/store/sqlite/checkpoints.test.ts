// Checkpoints of SQLite's write-ahead log: it is restarted and shrunk, and commits wait for little of that.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openGroup } from "../../../harness/databases/sqlite-group.ts";
import { Checkpoints } from "../../../src/store/sqlite/checkpoints.ts";
import { openReader } from "../../../src/store/sqlite/reader.ts";
import { WalSync, type CheckpointResult } from "../../../src/store/sqlite/wal-sync.ts";

let dir = "";
let file = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keyrack-test-checkpoints-"));
  file = join(dir, "keyrack.db");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe("a checkpoint", () => {
  it("shrinks the -wal only when no commit has come for five seconds", async () => {
    const { driver, group, insert } = await openGroup(file);
    const before = performance.now();
    await insert("large", "x".repeat(6 * 1024 * 1024));
    const after = performance.now(); // it was committed in between
    const full = driver.walBytes();
    await driver.checkpointIfDue(true, before + 4_999);
    await driver.checkpointIfDue(false, after + 9_000);
    expect(driver.walBytes()).toBe(full);
    await driver.checkpointIfDue(true, after + 5_000);
    expect([full > 6 * 1024 * 1024, driver.walBytes()]).toEqual([true, 0]);
    await group.close();
    await driver.close();
  });

  it("restarts the -wal beside reads", async () => {
    const { driver, group, insert, names } = await openGroup(file);
    for (let i = 0; i < 20; i++) await insert(`${i}`, "x".repeat(4_000));
    const full = driver.walBytes();
    const stop = new AbortController();
    const reader = (async () => {
      while (!stop.signal.aborted) {
        await names();
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    await group.checkpointIfIdle();
    await insert("after", "x");
    expect(driver.walBytes()).toBe(full); // overwritten from its start, not extended
    stop.abort();
    await reader;
    await group.close();
    await driver.close();
  });

  it("that a reader kept from restarting the -wal is repeated when that has ended, not when the -wal has grown again", async () => {
    const { driver, group, insert } = await openGroup(file);
    await insert("seen", "x");
    const reader = openReader(file);
    reader.prepare("begin").run();
    reader.prepare("select count(*) from deployment").get();
    await insert("large", "x".repeat(6 * 1024 * 1024));
    await group.checkpointIfIdle();
    reader.prepare("commit").run();
    await driver.checkpointIfDue(false, performance.now() + 1_000);
    const full = driver.walBytes();
    await insert("next", "x".repeat(1024 * 1024));
    expect(driver.walBytes()).toBe(full); // overwritten from its start, not extended
    reader.close();
    await group.close();
    await driver.close();
  });

  it("waits a moment for readers while the -wal is large, but rarely for one of more than a second", async () => {
    const { driver, group } = await openGroup(file);
    const result = { busy: 1, log: 3_000, checkpointed: 1 };
    const checkpoint = vi.spyOn(WalSync.prototype, "checkpoint").mockImplementation(async () => result);
    vi.spyOn(WalSync.prototype, "copy").mockResolvedValue(result);
    const begun = performance.now() + 60_000; // later than any checkpoint before it
    const waits = async (ms: number): Promise<boolean> => {
      await driver.checkpointIfDue(false, begun + ms);
      const [waitMs = 0] = checkpoint.mock.lastCall ?? [];
      return waitMs > 0 && waitMs < 50;
    };
    vi.spyOn(Checkpoints.prototype, "walBytes").mockReturnValue(15 * 1024 * 1024);
    await driver.checkpointIfDue(false, begun); // copies
    await new Promise((resolve) => setImmediate(resolve));
    expect([await waits(0), await waits(100)]).toEqual([false, false]);
    result.log = 5_000;
    const found: boolean[] = [];
    for (const ms of [200, 300, 400, 1_500, 1_600, 2_000]) found.push(await waits(ms));
    expect(found).toEqual([false, true, true, true, false, true]);
    result.checkpointed = 2; // another reader is the oldest
    expect([await waits(2_100), await waits(2_200), await waits(2_300)]).toEqual([false, true, true]);
    expect(await waits(2_310)).toBe(true); // with the next commit, while that may help
    result.busy = 0;
    expect(await waits(2_400)).toBe(true);
    result.busy = 1;
    await driver.checkpointIfDue(false, begun + 2_500); // nothing is due
    expect(checkpoint).toHaveBeenCalledTimes(13);
    vi.restoreAllMocks();
    await group.close();
    await driver.close();
  });

  it("waits rarely, too, where short readers have kept the -wal from restarting for five seconds", async () => {
    const { driver, group } = await openGroup(file);
    const result = { busy: 1, log: 5_000, checkpointed: 1 };
    const checkpoint = vi.spyOn(WalSync.prototype, "checkpoint").mockImplementation(async () => result);
    vi.spyOn(Checkpoints.prototype, "walBytes")
      .mockReturnValueOnce(0)
      .mockReturnValue(5 * 1024 * 1024);
    const begun = performance.now() + 60_000;
    let waited = 0;
    const between = async (from: number, to: number): Promise<[number, number]> => {
      const before = checkpoint.mock.calls.length;
      waited = 0;
      for (let ms = from; ms < to; ms += 10) {
        const calls = checkpoint.mock.calls.length;
        result.checkpointed++; // another reader is the oldest
        await driver.checkpointIfDue(false, begun + ms);
        if (checkpoint.mock.calls.length > calls && (checkpoint.mock.lastCall?.[0] ?? 0) > 0) waited++;
      }
      return [checkpoint.mock.calls.length - before, waited];
    };
    await driver.checkpointIfDue(true, begun); // the first, which is busy
    expect(await between(10, 4_010)).toEqual([400, 400]);
    await between(4_010, 5_010);
    expect(await between(5_010, 7_050)).toEqual([68, 4]); // each third and fifty-first
    vi.restoreAllMocks();
    await group.close();
    await driver.close();
  });

  it("keeps the -wal from growing with the number of commits", async () => {
    const { driver, group, insert } = await openGroup(file);
    const checkpoint = vi.spyOn(WalSync.prototype, "checkpoint");
    const rounds: { commits: number; bytes: number }[] = [];
    for (let round = 1; round <= 4; round++) {
      let commits = 0;
      while (checkpoint.mock.calls.length < round) await insert(`${round}-${commits++}`, "x".repeat(100));
      rounds.push({ commits, bytes: driver.walBytes() });
    }
    const bytesPerCommit = (rounds[0]?.bytes ?? 0) / (rounds[0]?.commits ?? 1);
    const largest = Math.max(...rounds.map(({ commits }) => commits));
    expect(rounds.at(-1)?.bytes).toBeLessThan(1.5 * largest * bytesPerCommit);
    await group.close();
    await driver.close();
  });

  it("copies the -wal beside commits, and lets them wait only for what is left", async () => {
    const { driver, group, insert } = await openGroup(file);
    const copied = Promise.withResolvers<CheckpointResult>();
    const copy = vi.spyOn(WalSync.prototype, "copy").mockReturnValue(copied.promise);
    const checkpoint = vi.spyOn(WalSync.prototype, "checkpoint");
    for (let i = 0; i < 250; i++) await insert(`a${i}`, "x");
    expect([copy.mock.calls.length, checkpoint.mock.calls.length]).toEqual([1, 0]);
    copied.resolve({ busy: 0, log: 0, checkpointed: 0 });
    await insert("b", "x");
    await insert("c", "x");
    expect([copy.mock.calls.length, checkpoint.mock.calls.length]).toEqual([1, 1]);
    await group.close();
    await driver.close();
  });
});
