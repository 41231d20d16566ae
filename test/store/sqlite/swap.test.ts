// Replacing a SQLite file: a -wal beside either file neither corrupts the new database nor loses commits of the old.
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { swapSqlite } from "../../../src/store/sqlite/swap.ts";

let dir = "";
const path = (name: string): string => join(dir, name);
beforeEach(() => (dir = mkdtempSync(join(tmpdir(), "keyrack-test-swap-"))));
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function write(file: string, value: string): void {
  const db = new Database(file);
  db.exec(`create table t (value text); insert into t values ('${value}')`);
  db.close();
}

/** Leaves the files of a killed process: the value is only in the -wal. */
function writeAndDie(file: string, value: string): void {
  const db = new Database(path("dying"));
  db.exec("pragma journal_mode=WAL; pragma wal_autocheckpoint=0; create table t (value text)");
  db.pragma("wal_checkpoint(TRUNCATE)");
  db.exec(`insert into t values ('${value}')`);
  copyFileSync(path("dying"), file);
  copyFileSync(path("dying-wal"), `${file}-wal`);
  db.close();
  rmSync(path("dying"));
}

function values(file: string): unknown[] {
  const db = new Database(file, { readonly: true });
  try {
    return db.prepare("select value from t").pluck().all();
  } finally {
    db.close();
  }
}

describe("swapSqlite", () => {
  it("keeps the old database in one file, including commits that were only in its -wal", () => {
    writeAndDie(path("live"), "old");
    write(path("fresh"), "new");
    swapSqlite(path("fresh"), path("live"), path("kept"));
    expect(readdirSync(dir).toSorted()).toEqual(["kept", "live"]);
    expect([values(path("live")), values(path("kept"))]).toEqual([["new"], ["old"]]);
  });

  it("does not replay the -wal of a removed file into the new one", () => {
    writeAndDie(path("live"), "old");
    rmSync(path("live"));
    write(path("fresh"), "new");
    swapSqlite(path("fresh"), path("live"), path("kept"));
    expect(values(path("live"))).toEqual(["new"]);
    expect(readdirSync(dir).filter((name) => name.startsWith("kept"))).toEqual(["kept-wal"]);
  });

  it("keeps a file that is not a database together with its -wal", () => {
    writeFileSync(path("live"), "broken");
    writeFileSync(path("live-wal"), "log");
    write(path("fresh"), "new");
    swapSqlite(path("fresh"), path("live"), path("kept"));
    expect(values(path("live"))).toEqual(["new"]);
    expect([readFileSync(path("kept"), "utf8"), readFileSync(path("kept-wal"), "utf8")]).toEqual(["broken", "log"]);
  });

  it("never overwrites a file that was kept before", () => {
    write(path("live"), "old");
    write(path("kept"), "older");
    write(path("fresh"), "new");
    expect(() => swapSqlite(path("fresh"), path("live"), path("kept"))).toThrow("EEXIST");
    expect([values(path("live")), values(path("kept"))]).toEqual([["old"], ["older"]]);
  });

  it("refuses a new file whose -wal is not checkpointed", () => {
    write(path("live"), "old");
    writeAndDie(path("fresh"), "new");
    expect(() => swapSqlite(path("fresh"), path("live"), path("kept"))).toThrow("nothing was replaced");
    expect([values(path("live")), existsSync(path("kept"))]).toEqual([["old"], false]);
  });
});
