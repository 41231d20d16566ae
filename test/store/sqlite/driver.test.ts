// The SQLite driver: pragmas, visibility to readers, copies and durability.
import { copyFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { record } from "../../../src/domain/core/record.ts";
import { openStore } from "../../../src/store/database.ts";
import { WalSync } from "../../../src/store/sqlite/wal-sync.ts";
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
      `SQLite file ${file} is not a Keyrack database.`,
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
