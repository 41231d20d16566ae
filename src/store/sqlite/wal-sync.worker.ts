// WAL sync worker: a thread of its own, so that neither fdatasync nor a checkpoint blocks the event loop. Not libuv's
// pool, where password hashing would delay commits. Holds the -wal descriptor for the life of the process.
import { closeSync, fdatasyncSync, fstatSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { fsyncDir } from "../../platform/fsync.ts";
import { connectSqlite } from "./open.ts";
import { setPragmas } from "./pragmas.ts";

type Request = { id: number; op: "sync" | "checkpoint" | "truncate" | "close" };
const { file } = workerData as { file: string };

const db = connectSqlite(file, { timeout: 0 });
setPragmas(db, ["synchronous=FULL", "wal_autocheckpoint=0", "mmap_size=0"]);
db.prepare("select count(*) from sqlite_schema").get(); // the first read creates the -wal file
const wal = openSync(`${file}-wal`, "r");

fsyncDir(dirname(file)); // SQLite syncs the name of a new -wal only when it syncs the file itself

/** A replaced -wal means that our descriptor syncs an orphan, and commits were reported durable that are not. */
function assertSameWal(): void {
  if (fstatSync(wal).ino !== statSync(`${file}-wal`).ino) throw new Error("the -wal file was replaced");
}

function checkpoint(mode: "RESTART" | "TRUNCATE"): { busy: number; log: number; checkpointed: number } {
  const [row] = db.pragma(`wal_checkpoint(${mode})`) as [{ busy: number; log: number; checkpointed: number }];
  assertSameWal();
  return row;
}

function perform(op: Request["op"]): unknown {
  if (op === "sync") return fdatasyncSync(wal);
  if (op === "checkpoint") return checkpoint("RESTART");
  if (op === "truncate") return checkpoint("TRUNCATE");
  closeSync(wal);
  db.close();
  return null;
}

parentPort?.on("message", (request: Request) => {
  try {
    parentPort?.postMessage({ id: request.id, value: perform(request.op) ?? null }, []);
  } catch (error) {
    const { message, code } = error as { message: string; code?: string };
    parentPort?.postMessage({ id: request.id, error: message, code }, []);
  }
  if (request.op === "close") parentPort?.close();
});
