// The SQLite flusher: its own thread, so that neither fdatasync nor a checkpoint stops the event loop, and not libuv's
// pool, where password hashes would make a commit wait. It holds the -wal descriptor for the life of the process.
import { closeSync, fdatasyncSync, fstatSync, fsyncSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { connectSqlite } from "./open.ts";

type Ask = { id: number; op: "sync" | "checkpoint" | "truncate" | "close" };
const { file } = workerData as { file: string };

const db = connectSqlite(file, { timeout: 0 });
db.pragma("synchronous=FULL");
db.pragma("wal_autocheckpoint=0");
db.pragma("mmap_size=0");
for (const [name, want] of Object.entries({ synchronous: 2, wal_autocheckpoint: 0, mmap_size: 0 })) {
  const got = db.pragma(name, { simple: true });
  if (got !== want) throw new Error(`SQLite refused ${name}=${want} (it is ${String(got)})`);
}
db.prepare("select count(*) from sqlite_schema").get(); // a first read makes SQLite create the -wal file
const wal = openSync(`${file}-wal`, "r");

/** A synced file whose name is not on disk is lost with its name: SQLite sees to that only when it syncs by itself. */
function syncFolder(folder: string): void {
  const descriptor = openSync(folder, "r");
  fsyncSync(descriptor);
  closeSync(descriptor);
}
syncFolder(dirname(file));

/** A replaced -wal means that we sync an orphan: what was promised is not on disk. */
function assertSameWal(): void {
  if (fstatSync(wal).ino !== statSync(`${file}-wal`).ino) throw new Error("the -wal file was replaced");
}

function checkpoint(mode: "RESTART" | "TRUNCATE"): { busy: number; log: number; checkpointed: number } {
  const [row] = db.pragma(`wal_checkpoint(${mode})`) as [{ busy: number; log: number; checkpointed: number }];
  assertSameWal();
  return row;
}

function perform(op: Ask["op"]): unknown {
  if (op === "sync") return fdatasyncSync(wal);
  if (op === "checkpoint") return checkpoint("RESTART");
  if (op === "truncate") return checkpoint("TRUNCATE");
  closeSync(wal);
  db.close();
  return null;
}

parentPort?.on("message", (ask: Ask) => {
  try {
    parentPort?.postMessage({ id: ask.id, value: perform(ask.op) ?? null }, []);
  } catch (error) {
    const { message, code } = error as { message: string; code?: string };
    parentPort?.postMessage({ id: ask.id, error: message, code }, []);
  }
  if (ask.op === "close") parentPort?.close();
});
