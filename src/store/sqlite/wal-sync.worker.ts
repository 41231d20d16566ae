// WAL sync worker: a thread of its own, so that neither fdatasync nor a checkpoint blocks the event loop. Not libuv's
// pool, where password hashing would delay commits. Holds the -wal descriptor for as long as the database is open.
import { closeSync, fdatasyncSync, fstatSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { parentPort } from "node:worker_threads";
import { fsyncDir } from "../../platform/fsync.ts";
import { connectSqlite, type Connection } from "./open.ts";
import { setPragmas } from "./pragmas.ts";
import type { CheckpointResult, WalRequest } from "./wal-sync.ts";

type Opened = { file: string; db: Connection; wal: number };

let opened: Opened | undefined;

function open(file: string): void {
  const db = connectSqlite(file, { timeout: 0 });
  setPragmas(db, ["synchronous=FULL", "wal_autocheckpoint=0", "mmap_size=0"]);
  db.prepare("select count(*) from sqlite_schema").get(); // the first read creates the -wal file
  opened = { file, db, wal: openSync(`${file}-wal`, "r") };
  fsyncDir(dirname(file)); // SQLite syncs the name of a new -wal only when it syncs the file itself
}

/** A replaced -wal means that our descriptor syncs an orphan, and commits were reported durable that are not. */
function assertSameWal({ file, wal }: Opened): void {
  if (fstatSync(wal).ino !== statSync(`${file}-wal`).ino) throw new Error("the -wal file was replaced");
}

function checkpoint(at: Opened, mode: "PASSIVE" | "RESTART" | "TRUNCATE", waitMs = 0): CheckpointResult {
  at.db.pragma(`busy_timeout=${waitMs}`);
  const [row] = at.db.pragma(`wal_checkpoint(${mode})`) as [CheckpointResult];
  assertSameWal(at);
  return row;
}

function perform({ op, file, waitMs }: WalRequest): unknown {
  if (op === "open") return open(file as string);
  if (!opened) throw new Error("no database is open");
  if (op === "sync") return fdatasyncSync(opened.wal);
  if (op === "copy") return checkpoint(opened, "PASSIVE");
  if (op === "checkpoint") return checkpoint(opened, "RESTART", waitMs);
  if (op === "truncate") return checkpoint(opened, "TRUNCATE");
  closeSync(opened.wal);
  opened.db.close();
  opened = undefined;
  return null;
}

parentPort?.on("message", (request: WalRequest) => {
  try {
    parentPort?.postMessage({ id: request.id, value: perform(request) ?? null }, []);
  } catch (error) {
    const { message, code } = error as { message: string; code?: string };
    parentPort?.postMessage({ id: request.id, error: message, code }, []);
  }
});
