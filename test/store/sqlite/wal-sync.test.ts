// The thread that syncs the -wal serves one database at a time, and another one after it.
import { copyFileSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, expect, it } from "vitest";
import { DEADLINE_MS, until } from "../../../harness/waiting.ts";
import { WalSync } from "../../../src/store/sqlite/wal-sync.ts";

const dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** A database in WAL mode with a row that is only in its -wal, open until it is disposed. */
function database(name: string): Disposable & { file: string; sync: WalSync } {
  const file = join(dir, name);
  const db = new Database(file);
  db.pragma("journal_mode=WAL");
  db.exec("create table t (a); insert into t values (1)");
  return { file, sync: new WalSync(file), [Symbol.dispose]: () => void db.close() };
}

it("serves two databases at once, and the next one after one of them is closed", async () => {
  using one = database("one.db");
  using two = database("two.db");
  await Promise.all([one.sync.sync(), two.sync.sync()]);
  await one.sync.close();
  using three = database("three.db");
  await three.sync.sync();
  expect(await three.sync.truncate()).toMatchObject({ busy: 0 });
  expect(await two.sync.checkpoint()).toMatchObject({ busy: 0, log: 3, checkpointed: 3 });
  await Promise.all([two.sync.close(), three.sync.close()]);
});

it("watches the -wal of the present database: one that was replaced fails the checkpoint", async () => {
  using before = database("before.db");
  await before.sync.close();
  using replaced = database("replaced.db");
  await replaced.sync.sync();
  const wal = `${replaced.file}-wal`;
  copyFileSync(wal, `${wal}.copy`);
  renameSync(`${wal}.copy`, wal);
  await expect(replaced.sync.checkpoint()).rejects.toThrow("the -wal file was replaced");
  await replaced.sync.close();
});

it("waits for a reader during a checkpoint, for as long as it is allowed to", async () => {
  using one = database("read.db");
  const reader = new Database(one.file, { readonly: true });
  reader.exec("begin");
  reader.prepare("select a from t").get();
  expect(await one.sync.checkpoint()).toMatchObject({ busy: 1 });
  const other = new Database(one.file, { timeout: 0 });
  /** The checkpoint holds SQLite's lock for writers while it waits. */
  const isWaiting = (): boolean => {
    try {
      other.exec("begin immediate; rollback");
      return false;
    } catch {
      return true;
    }
  };
  let isDone = false;
  const waiting = one.sync.checkpoint(DEADLINE_MS).finally(() => (isDone = true));
  await until(() => isDone || isWaiting());
  reader.exec("commit");
  expect(await waiting).toMatchObject({ busy: 0 });
  reader.close();
  other.close();
  await one.sync.close();
});

it("rejects every request about a database that cannot be opened, and serves the next", async () => {
  const missing = new WalSync(join(dir, "missing", "some.db"));
  await expect(missing.sync()).rejects.toThrow("directory does not exist");
  await expect(missing.truncate()).rejects.toThrow("directory does not exist");
  using next = database("next.db");
  await next.sync.sync();
  await next.sync.close();
});
