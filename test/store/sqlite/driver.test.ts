// The SQLite driver: pragmas, visibility to readers, copies and durability.
import { copyFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { record } from "../../../src/domain/core/record.ts";
import { openStore } from "../../../src/store/database.ts";
import { WalSync, type CheckpointResult } from "../../../src/store/sqlite/wal-sync.ts";
import { loadMigrations } from "../../../src/store/schema/migrate.ts";
import { openReader } from "../../../src/store/sqlite/reader.ts";
import { openWriter } from "../../../src/store/sqlite/driver.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { openGroup } from "../../../harness/databases/sqlite-group.ts";
import { until } from "../../../harness/waiting.ts";

let dir = "";
let file = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keyrack-test-sqlite-"));
  file = join(dir, "keyrack.db");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

describe("a SQLite connection", () => {
  it("writes with the pragmas that durability and safety depend on", async () => {
    await (await openStore({ kind: "sqlite", file }, { now: () => 1, fatal: () => {} })).close();
    const db = openWriter(file);
    const got = (name: string): unknown => db.pragma(name, { simple: true });
    const wanted = {
      journal_mode: "wal",
      synchronous: 1, // the WAL sync worker makes commits durable
      wal_autocheckpoint: 0,
      busy_timeout: 0,
      foreign_keys: 1,
      recursive_triggers: 1,
      trusted_schema: 0,
      cell_size_check: 1,
      secure_delete: 2,
      temp_store: 2,
      mmap_size: 0,
      cache_size: -8192,
      page_size: 4096,
      auto_vacuum: 2,
      application_id: 0x4b52434b,
      user_version: loadMigrations("sqlite").at(-1)?.version,
    };
    expect(Object.fromEntries(Object.keys(wanted).map((name) => [name, got(name)]))).toEqual(wanted);
    db.close();
  });

  it("cannot write when opened for reading", () => {
    openWriter(file).close();
    const db = openReader(file);
    expect(db.pragma("query_only", { simple: true })).toBe(1);
    expect(db.pragma("busy_timeout", { simple: true })).toBe(5_000);
    expect(() => db.exec("create table t (id text)")).toThrow(/readonly/);
    db.close();
  });

  it("keeps every table strict", async () => {
    await (await openStore({ kind: "sqlite", file }, { now: () => 1, fatal: () => {} })).close();
    const db = new Database(file, { readonly: true });
    const loose = db.prepare(
      "select name from pragma_table_list where schema = 'main' and type = 'table' and strict = 0",
    );
    const names = loose.all().map((row) => (row as { name: string }).name);
    expect(names.filter((name) => !name.startsWith("sqlite_") && name !== "schema_migrations")).toEqual([]);
    db.close();
  });

  it("refuses a file of another program and leaves it unchanged", async () => {
    const theirs = new Database(file);
    theirs.exec("create table theirs (id text)");
    theirs.close();
    await expect(openStore({ kind: "sqlite", file }, { now: () => 1, fatal: () => {} })).rejects.toThrow(
      /application_id/,
    );
    const again = new Database(file);
    expect(again.pragma("journal_mode", { simple: true })).toBe("delete");
    expect(again.prepare("select name from sqlite_schema").all()).toEqual([{ name: "theirs" }]);
    again.close();
  });

  it("accepts the empty file of an interrupted first start", async () => {
    writeFileSync(file, "");
    const store = await openStore({ kind: "sqlite", file }, { now: () => 1, fatal: () => {} });
    expect(store.applied.length).toBeGreaterThan(0);
    await store.close();
  });
});

describe("reading from SQLite", () => {
  it("shows a commit to a reader of the same event loop turn, and nothing before it", async () => {
    const { driver, group, names } = await openGroup(file);
    const { writer } = driver;
    const before = await names();
    const row = { sql: "insert into deployment (name, value) values (?, ?)", values: ["zz", "1"] };
    await writer.exec("begin immediate");
    await writer.run(row);
    expect(await names()).toEqual(before);
    await writer.exec("commit");
    expect(await names()).toEqual([...before, "zz"]);
    await group.close();
    await driver.close();
  });

  it("shrinks the -wal only when no commit has come for five seconds", async () => {
    const { driver, group, insert } = await openGroup(file);
    await insert("large", "x".repeat(6 * 1024 * 1024));
    const full = driver.walBytes();
    const committed = performance.now();
    await driver.checkpointIfDue(true, committed + 4_000);
    await driver.checkpointIfDue(false, committed + 9_000);
    expect(driver.walBytes()).toBe(full);
    await driver.checkpointIfDue(true, committed + 5_000);
    expect([full > 6 * 1024 * 1024, driver.walBytes()]).toEqual([true, 0]);
    await group.close();
    await driver.close();
  });

  it("does not prevent a restart of the -wal", async () => {
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
});

describe("a reader of another connection", () => {
  it("delays the restart of the -wal only until it has ended, not until the -wal has grown again", async () => {
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
});

describe("a copy of a large database", () => {
  it("is complete though it started during a transaction", async () => {
    const { driver, group, insert } = await openGroup(file);
    await insert("before", "1");
    const copy = join(dir, "copy.db");
    await driver.writer.exec("begin immediate");
    const attempts = vi.spyOn(Database.prototype, "backup");
    const copying = driver.copyTo(copy, () => {});
    await until(() => attempts.mock.calls.length > 1); // the first found the transaction open
    await driver.writer.exec("commit");
    await copying;
    const db = new Database(copy, { readonly: true });
    expect(db.prepare("select name from deployment where name = 'before'").all()).toHaveLength(1);
    expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
    db.close();
    await group.close();
    await driver.close();
  });

  it("can be aborted while a transaction stays open", async () => {
    const { driver, group } = await openGroup(file);
    await driver.writer.exec("begin immediate");
    const stop = new AbortController();
    const copying = driver.copyTo(
      join(dir, "copy.db"),
      Object.assign(() => {}, { signal: stop.signal }),
    );
    stop.abort();
    await expect(copying).rejects.toThrow(/abort/i);
    await driver.writer.exec("rollback");
    await group.close();
    await driver.close();
  });
});

describe("durability on SQLite", () => {
  it("has a pending sync as soon as a reader can see the commit", async () => {
    const { driver, group, insert } = await openGroup(file);
    const observer = openReader(file);
    const visible = observer.prepare("select 1 from deployment");
    const written = insert("a", "1");
    for (let round = 1; !visible.get(); round++) {
      await Promise.resolve(); // checks between any two microtasks of the writer
      if (round % 1_000 === 0) await new Promise((resolve) => setImmediate(resolve)); // the writer itself may wait for a turn
    }
    const pending = driver.pendingSync();
    expect(pending).toBeInstanceOf(Promise);
    await pending;
    await written;
    expect(driver.pendingSync()).toBeUndefined();
    observer.close();
    await group.close();
    await driver.close();
  });

  it("rejects the group and every later write when a sync fails", async () => {
    const fatal = vi.fn<(error: unknown) => void>();
    const { driver, group, insert } = await openGroup(file, { fatal });
    const broken = new Error("EIO");
    const sync = vi.spyOn(driver, "sync").mockRejectedValueOnce(broken);
    const results = await Promise.allSettled([insert("a", "1"), insert("b", "1")]);
    for (const result of results) expect(result).toMatchObject({ reason: { failure: "unavailable" } });
    await expect(insert("c", "1")).rejects.toMatchObject({ failure: "unavailable" });
    expect(fatal.mock.calls).toEqual([[broken]]);
    expect(sync).toHaveBeenCalledTimes(1);
    await group.close();
    await driver.close();
  });

  it("rejects every sync after the WAL sync worker has died", async () => {
    writeFileSync(file, "not a database and not a database header either: ".repeat(20));
    const walSync = new WalSync(file);
    await expect(walSync.sync()).rejects.toThrow(/not a database/);
    await expect(walSync.sync()).rejects.toThrow(/not a database/);
    await expect(walSync.checkpoint()).rejects.toThrow(/not a database/);
  });

  it("detects a replaced -wal file at a checkpoint", async () => {
    openWriter(file).close();
    const db = openWriter(file);
    db.exec("create table t (id text)");
    const walSync = new WalSync(file);
    await walSync.sync();
    renameSync(`${file}-wal`, `${file}-old`);
    copyFileSync(`${file}-old`, `${file}-wal`);
    await expect(walSync.checkpoint()).rejects.toThrow(/was replaced/);
    await walSync.close();
    db.close();
  });

  it("waits a moment for readers while the -wal is large, and not again at once", async () => {
    const { driver, group } = await openGroup(file);
    const checkpoint = vi
      .spyOn(WalSync.prototype, "checkpoint")
      .mockResolvedValue({ busy: 1, log: 1, checkpointed: 1 });
    const size = vi.spyOn(driver, "walBytes").mockReturnValue(15 * 1024 * 1024);
    const now = performance.now() + 60_000; // later than any checkpoint before it
    vi.spyOn(WalSync.prototype, "copy").mockResolvedValue({ busy: 0, log: 1, checkpointed: 1 });
    await driver.checkpointIfDue(false, now); // copies
    await new Promise((resolve) => setImmediate(resolve));
    await driver.checkpointIfDue(false, now); // restarts
    size.mockReturnValue(20 * 1024 * 1024);
    for (const ms of [1_000, 1_100, 1_600]) await driver.checkpointIfDue(false, now + ms);
    const waits = checkpoint.mock.calls.map(([waitMs = 0]) => waitMs > 0 && waitMs < 50);
    checkpoint.mockRestore();
    size.mockRestore();
    expect(waits).toEqual([false, true, false, true]);
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

describe("the audit log on SQLite", () => {
  for (const [what, sql] of [
    ["an update", "update audit_log set action = 'x'"],
    ["a delete", "delete from audit_log"],
    ["a replacement", "insert or replace into audit_log select * from audit_log where seq = 1"],
  ] as const) {
    it(`rejects ${what}`, async () => {
      await using fixture = await testServices("sqlite");
      await vendorOf(fixture.services);
      const before = await fixture.sql("select * from audit_log order by seq");
      await expect(record(fixture.services, (tx) => tx.run({ sql, values: [] }))).rejects.toThrow(/append-only/);
      expect(await fixture.sql("select * from audit_log order by seq")).toEqual(before);
    });
  }
});
