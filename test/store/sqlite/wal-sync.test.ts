// The thread that syncs the -wal serves one database at a time, and another one after it.
import { copyFileSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, expect, it } from "vitest";
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

it("rejects every request about a database that cannot be opened, and serves the next", async () => {
  const missing = new WalSync(join(dir, "missing", "some.db"));
  await expect(missing.sync()).rejects.toThrow("directory does not exist");
  await expect(missing.truncate()).rejects.toThrow("directory does not exist");
  using next = database("next.db");
  await next.sync.sync();
  await next.sync.close();
});
