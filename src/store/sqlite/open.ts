// The only place that opens a SQLite file, in every thread. In the single binary the native addon is unpacked first.
import Database from "better-sqlite3";
import { nativeAddon } from "../../platform/native-addons.ts";
import { scopesWithin } from "./functions.ts";

export type Connection = Database.Database;
export type Statement = Database.Statement;

export function connectSqlite(file: string, options: { readonly?: boolean; timeout: number }): Connection {
  const addon = nativeAddon("better-sqlite3");
  // better-sqlite3 accepts the loaded addon as well as a path; its types know only the path.
  const db = new Database(file, addon ? { ...options, nativeBinding: addon as string } : options);
  return db.function("scopes_within", { deterministic: true }, scopesWithin);
}

/** Refuses the file of another program. */
export function requireOwnFile(db: Connection, applicationId: number): void {
  if (db.pragma("application_id", { simple: true }) === applicationId) return;
  throw new Error(`SQLite file ${db.name} is not a Keyrack database.`);
}
