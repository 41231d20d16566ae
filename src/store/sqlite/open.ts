// The only place that opens a SQLite file, in every thread. In the single binary the native addon is unpacked first.
import { accessSync, constants, existsSync, readFileSync, statSync } from "node:fs";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import { MIB } from "../../kernel/sizes.ts";
import { nativeAddon } from "../../platform/native-addons.ts";
import { scopesWithin } from "./functions.ts";
import { isInWalMode, WAL_MODE_AT } from "./header.ts";

export type Connection = Database.Database;
export type Statement = Database.Statement;

const IN_MEMORY_MAX = 1024 * MIB;

export function connectSqlite(file: string, options: { readonly?: boolean; timeout: number }): Connection {
  const addon = nativeAddon("better-sqlite3");
  const loaded = options.readonly && isUnwritableWal(file) ? loadIntoMemory(file) : null;
  // better-sqlite3 accepts the loaded addon as well as a path; its types know only the path.
  const all = { ...options, ...(loaded && { readonly: false }), ...(addon ? { nativeBinding: addon as string } : {}) };
  const db = new Database(loaded ?? file, all);
  return db.function("scopes_within", { deterministic: true }, scopesWithin);
}

/** Whether this user can create files in the folder. */
export function isWritable(dir: string): boolean {
  try {
    accessSync(dir, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * To read a database in WAL mode, SQLite creates files beside it. On a read-only disk, one that was closed cleanly is
 * complete by itself. SQLite's `immutable` is not available: it needs URIs, which better-sqlite3 disables.
 */
function isUnwritableWal(file: string): boolean {
  return !isWritable(dirname(file)) && existsSync(file) && !existsSync(`${file}-wal`) && isInWalMode(file);
}

function loadIntoMemory(file: string): Buffer {
  if (statSync(file).size > IN_MEMORY_MAX)
    throw new Error(`SQLite file ${file} is on a read-only disk. Copy the data dir to a writable one first.`);
  const bytes = readFileSync(file);
  return bytes.fill(1, WAL_MODE_AT, WAL_MODE_AT + 2); // a database in memory has no -wal
}

/** Refuses the file of another program. */
export function requireOwnFile(db: Connection, applicationId: number): void {
  if (db.pragma("application_id", { simple: true }) === applicationId) return;
  throw new Error(`SQLite file ${db.name} is not a Keyrack database.`);
}
