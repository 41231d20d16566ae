// One SQLite file in the place of another: logs that lie beside either of them neither spoil the new nor shorten the old.
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

function write(file: string, word: string): void {
  const db = new Database(file);
  db.exec(`create table t (word text); insert into t values ('${word}')`);
  db.close();
}

/** As a process that was killed leaves it: the word is in the log alone. */
function writeAndDie(file: string, word: string): void {
  const db = new Database(path("dying"));
  db.exec("pragma journal_mode=WAL; pragma wal_autocheckpoint=0; create table t (word text)");
  db.pragma("wal_checkpoint(TRUNCATE)");
  db.exec(`insert into t values ('${word}')`);
  copyFileSync(path("dying"), file);
  copyFileSync(path("dying-wal"), `${file}-wal`);
  db.close();
  rmSync(path("dying"));
}

function words(file: string): unknown[] {
  const db = new Database(file, { readonly: true });
  try {
    return db.prepare("select word from t").pluck().all();
  } finally {
    db.close();
  }
}

describe("putting a SQLite file in place", () => {
  it("keeps all of the old one in one file, with what was only in its log", () => {
    writeAndDie(path("live"), "old");
    write(path("fresh"), "new");
    swapSqlite(path("fresh"), path("live"), path("kept"));
    expect(readdirSync(dir).toSorted()).toEqual(["kept", "live"]);
    expect([words(path("live")), words(path("kept"))]).toEqual([["new"], ["old"]]);
  });

  it("does not let the log of a file that was moved away run into the new one", () => {
    writeAndDie(path("live"), "old");
    rmSync(path("live"));
    write(path("fresh"), "new");
    swapSqlite(path("fresh"), path("live"), path("kept"));
    expect(words(path("live"))).toEqual(["new"]);
    expect(readdirSync(dir).filter((name) => name.startsWith("kept"))).toEqual(["kept-wal"]);
  });

  it("keeps a file that is no database with its log, unread", () => {
    writeFileSync(path("live"), "broken");
    writeFileSync(path("live-wal"), "log");
    write(path("fresh"), "new");
    swapSqlite(path("fresh"), path("live"), path("kept"));
    expect(words(path("live"))).toEqual(["new"]);
    expect([readFileSync(path("kept"), "utf8"), readFileSync(path("kept-wal"), "utf8")]).toEqual(["broken", "log"]);
  });

  it("never writes over one that was kept before", () => {
    write(path("live"), "old");
    write(path("kept"), "older");
    write(path("fresh"), "new");
    expect(() => swapSqlite(path("fresh"), path("live"), path("kept"))).toThrow("EEXIST");
    expect([words(path("live")), words(path("kept"))]).toEqual([["old"], ["older"]]);
  });

  it("replaces nothing by a file whose own log is not in it", () => {
    write(path("live"), "old");
    writeAndDie(path("fresh"), "new");
    expect(() => swapSqlite(path("fresh"), path("live"), path("kept"))).toThrow("nothing was replaced");
    expect([words(path("live")), existsSync(path("kept"))]).toEqual([["old"], false]);
  });
});
