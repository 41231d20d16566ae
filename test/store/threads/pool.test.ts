// Worker threads are reused, end when they are idle for long, and end at once when their task is cancelled.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { openStore } from "../../../src/store/database.ts";
import { backgroundThreads, ThreadPool, threads } from "../../../src/store/threads/pool.ts";
import { NOTHING_VERIFIED } from "../../../src/store/audit/verify.ts";
import { withSignal } from "../../../src/store/progress.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";

const dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
const file = join(dir, "some.db");
const quick = { op: "quick", file } as const;

beforeAll(() => {
  new Database(file).exec("create table t (a)").close();
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

it("runs one task after another in one thread, and two at once in two", async () => {
  const pool = new ThreadPool({ lowPriority: false, keptMs: HOUR_MS });
  for (let i = 0; i < 3; i++) expect(await pool.run(quick)).toEqual([]);
  expect(pool.size).toBe(1);
  expect(await Promise.all([pool.run(quick), pool.run(quick)])).toEqual([[], []]);
  expect(pool.size).toBe(2);
});

it("keeps the thread of a task that failed", async () => {
  const pool = new ThreadPool({ lowPriority: false, keptMs: HOUR_MS });
  const missing = join(dir, "missing", "other.db");
  await expect(pool.run({ op: "quick", file: missing })).rejects.toThrow("directory does not exist");
  expect(await pool.run(quick)).toEqual([]);
  expect(pool.size).toBe(1);
});

it("ends a thread that gets no task for a while, and starts another for the next", async () => {
  const pool = new ThreadPool({ lowPriority: true, keptMs: 0 });
  expect(await pool.run(quick)).toEqual([]);
  await expect.poll(() => pool.size).toBe(0);
  expect(await pool.run(quick)).toEqual([]);
});

it("ends the thread of a cancelled task and rejects with the reason, without harm to the next task", async () => {
  const pool = new ThreadPool({ lowPriority: false, keptMs: HOUR_MS });
  const stop = new AbortController();
  const running = pool.run(
    quick,
    withSignal(() => {}, stop.signal),
  );
  stop.abort(new Error("no longer wanted"));
  await expect(running).rejects.toThrow("no longer wanted");
  await expect.poll(() => pool.size).toBe(0);
  await expect(
    pool.run(
      quick,
      withSignal(() => {}, stop.signal),
    ),
  ).rejects.toThrow("no longer wanted");
  expect(pool.size).toBe(0);
  expect(await pool.run(quick)).toEqual([]);
});

it("verifications run at normal priority, reads that may take long at low priority", async () => {
  const check = { verified: true };
  using verifying = vi.spyOn(threads, "run").mockResolvedValue({ part: NOTHING_VERIFIED, roots: [], check });
  using reading = vi.spyOn(backgroundThreads, "run").mockResolvedValue([]);
  const target = { kind: "sqlite", file: join(dir, "store.db") } as const;
  const store = await openStore(target, { now: () => 0, fatal: () => {} });
  expect(await store.verify("w", [])).toBe(check);
  await store.readOnThread({ sql: "select 1", values: [] });
  await store.close();
  expect([verifying, reading].map(({ mock }) => mock.calls.map(([{ op }]) => op))).toEqual([["verify"], ["read"]]);
});
