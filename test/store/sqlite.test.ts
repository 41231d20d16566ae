// SQLite: the settings that durability rests on, what a full or busy or broken disk does, and who owns a data dir.
import { copyFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { record } from "../../src/domain/mutate.ts";
import { openStore } from "../../src/store/db.ts";
import { Flusher } from "../../src/store/flusher.ts";
import { GroupCommit } from "../../src/store/group.ts";
import { DataDirInUse, lockDataDir, networkFileSystem } from "../../src/store/lock.ts";
import { loadMigrations, migrate } from "../../src/store/migrate.ts";
import { openReader } from "../../src/store/sqlite-reader.ts";
import { openWriter, SqliteDriver } from "../../src/store/sqlite.ts";
import type { Tx } from "../../src/store/statement.ts";
import { startChild } from "../support/child.ts";
import { rackLite, vendorOf } from "../support/rack-lite.ts";

let dir = "";
let file = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "keyrack-test-sqlite-"));
  file = join(dir, "keyrack.db");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** A writer without a store around it, so that a test can reach its connection. */
async function openGroup(events: Partial<ConstructorParameters<typeof GroupCommit>[1]> = {}) {
  const driver = new SqliteDriver(file);
  await migrate(driver, (sql) => driver.script(sql), 1);
  await driver.sync();
  const group = new GroupCommit(driver, { now: () => 1, committed: () => {}, fatal: () => {}, ...events });
  const insert = (name: string, value: string) =>
    group.submit({
      chains: [],
      work: async (tx: Tx) => {
        const touched = await tx.run({
          sql: "insert into deployment (name, value) values (?, ?)",
          values: [name, value],
        });
        return { value: touched, entries: [] };
      },
    });
  const names = async () =>
    (await driver.reader.all<{ name: string }>({ sql: "select name from deployment order by name", values: [] })).map(
      ({ name }) => name,
    );
  return { driver, group, insert, names };
}

describe("a SQLite connection", () => {
  it("writes with the settings that durability and safety rest on", async () => {
    await (await openStore({ kind: "sqlite", file }, { now: () => 1, fatal: () => {} })).close();
    const db = openWriter(file);
    const got = (name: string): unknown => db.pragma(name, { simple: true });
    const wanted = {
      journal_mode: "wal",
      synchronous: 1, // the flusher's own fdatasync makes commits durable
      wal_autocheckpoint: 0,
      busy_timeout: 0,
      foreign_keys: 1,
      recursive_triggers: 1,
      trusted_schema: 0,
      cell_size_check: 1,
      secure_delete: 2,
      temp_store: 2,
      mmap_size: 0,
      cache_size: -65536,
      page_size: 4096,
      auto_vacuum: 2,
      application_id: 0x4b52434b,
      user_version: loadMigrations("sqlite").at(-1)?.version,
    };
    expect(Object.fromEntries(Object.keys(wanted).map((name) => [name, got(name)]))).toEqual(wanted);
    db.close();
  });

  it("reads without being able to write", () => {
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

  it("refuses a file that belongs to another program, and leaves it as it was", async () => {
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

  it("accepts the empty file that a first start left when it was cut short", async () => {
    writeFileSync(file, "");
    const store = await openStore({ kind: "sqlite", file }, { now: () => 1, fatal: () => {} });
    expect(store.applied.length).toBeGreaterThan(0);
    await store.close();
  });
});

describe("reading from SQLite", () => {
  it("shows what was committed a moment ago to a reader of the same turn, and nothing before", async () => {
    const { driver, group, names } = await openGroup();
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

  it("does not keep the -wal from starting anew", async () => {
    const { driver, group, insert, names } = await openGroup();
    for (let i = 0; i < 20; i++) await insert(`${i}`, "x".repeat(4_000));
    const full = driver.walBytes();
    const stop = new AbortController();
    const reader = (async () => {
      while (!stop.signal.aborted) {
        await names();
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    await group.rest();
    await insert("after", "x");
    expect(driver.walBytes()).toBe(full); // written from its start again, not behind what was there
    stop.abort();
    await reader;
    await group.close();
    await driver.close();
  });
});

describe("durability on SQLite", () => {
  it("counts a commit as unsynced from the moment a reader can see it", async () => {
    const { driver, group, insert } = await openGroup();
    const eyes = openReader(file);
    const look = eyes.prepare("select 1 from deployment");
    const written = insert("a", "1");
    for (let round = 1; !look.get(); round++) {
      await Promise.resolve(); // looks between any two steps of the writer
      if (round % 1_000 === 0) await new Promise((resolve) => setImmediate(resolve)); // which may itself wait for one
    }
    const unsynced = driver.unsynced();
    expect(unsynced).toBeInstanceOf(Promise);
    await unsynced;
    await written;
    expect(driver.unsynced()).toBeUndefined();
    eyes.close();
    await group.close();
    await driver.close();
  });

  it("stops for good when a sync fails: nobody is told, nothing is written after it", async () => {
    const fatal = vi.fn<(error: unknown) => void>();
    const { driver, group, insert } = await openGroup({ fatal });
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

  it("fails every sync after its flusher has died, instead of waiting for ever", async () => {
    writeFileSync(file, "this is no database, and no database header either: ".repeat(20));
    const flusher = new Flusher(file);
    await expect(flusher.sync()).rejects.toThrow(/not a database/);
    await expect(flusher.sync()).rejects.toThrow(/not a database/);
    await expect(flusher.checkpoint()).rejects.toThrow(/not a database/);
  });

  it("notices at a checkpoint that its -wal file was replaced", async () => {
    openWriter(file).close();
    const db = openWriter(file);
    db.exec("create table t (id text)");
    const flusher = new Flusher(file);
    await flusher.sync();
    renameSync(`${file}-wal`, `${file}-old`);
    copyFileSync(`${file}-old`, `${file}-wal`);
    await expect(flusher.checkpoint()).rejects.toThrow(/was replaced/);
    await flusher.close();
    db.close();
  });

  it("keeps the -wal from growing with the number of commits", async () => {
    const { driver, group, insert } = await openGroup();
    const sizes: number[] = [];
    for (let round = 0; round < 4; round++) {
      for (let i = 0; i < 250; i++) await insert(`${round}-${i}`, "x".repeat(100));
      sizes.push(driver.walBytes());
    }
    expect(sizes.at(-1)).toBeLessThan(2 * (sizes[0] ?? 0));
    await group.close();
    await driver.close();
  });
});

describe("a SQLite disk in trouble", () => {
  it("refuses the whole group when it is full, leaves nothing of it, and goes on when there is room", async () => {
    const { driver, group, insert, names } = await openGroup();
    await insert("before", "1");
    await driver.script("pragma max_page_count = 1"); // clamps to the pages in use
    const results = await Promise.allSettled([insert("a", "1"), insert("b", "x".repeat(500_000)), insert("c", "1")]);
    const second = results.slice(1);
    for (const result of second) expect(result).toMatchObject({ reason: { failure: "storage_full", status: 503 } });
    expect(await names()).not.toContain("b");
    expect(await names()).not.toContain("c");
    await driver.script("pragma max_page_count = 1000000");
    await insert("after", "x".repeat(500_000));
    expect(await names()).toContain("after");
    await group.close();
    await driver.close();
  });

  it("goes on when there is no room for a checkpoint, and checkpoints when there is", async () => {
    const fatal = vi.fn<(error: unknown) => void>();
    const { driver, group, insert, names } = await openGroup({ fatal });
    const full = Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" });
    const checkpoint = vi.spyOn(Flusher.prototype, "checkpoint").mockRejectedValue(full);
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
    const { driver, group, insert, names } = await openGroup();
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
    const { driver, group, insert, names } = await openGroup();
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

describe("the audit log on SQLite", () => {
  for (const [what, sql] of [
    ["an update", "update audit_log set action = 'x'"],
    ["a delete", "delete from audit_log"],
    ["a replacement", "insert or replace into audit_log select * from audit_log where seq = 1"],
  ] as const) {
    it(`refuses ${what}`, async () => {
      await using lite = await rackLite("sqlite");
      await vendorOf(lite.rack);
      const before = await lite.sql("select * from audit_log order by seq");
      await expect(record(lite.rack, (tx) => tx.run({ sql, values: [] }))).rejects.toThrow(/append-only/);
      expect(await lite.sql("select * from audit_log order by seq")).toEqual(before);
    });
  }
});

describe("the data dir's lock", () => {
  it("refuses a second process, and is free as soon as the first was killed", async () => {
    const first = startChild("child-lock.ts", { dir });
    expect(await first.line()).toBe("locked");
    expect(() => lockDataDir(dir)).toThrow(DataDirInUse);
    const second = startChild("child-lock.ts", { dir });
    expect(await second.line()).toBe("DataDirInUse");
    first.process.kill("SIGKILL");
    await first.ended;
    lockDataDir(dir).release();
  });

  it("is free again after it was released", () => {
    lockDataDir(dir).release();
    expect(() => lockDataDir(dir).release()).not.toThrow();
  });

  it("does not take a local folder for a network one", () => {
    expect(networkFileSystem(dir)).toBeUndefined();
  });
});
