// Errors that the operator can fix, as one sentence and an exit code: 1 for a data dir or port in use by another
// process, a full disk and I/O errors, 2 for settings and files, 3 for an unreachable database, 70 for a damaged one.
// The systemd unit restarts the server after 1 and 3, which may pass, and not after 2 and 70.
import { dirname, resolve } from "node:path";
import type { Settings } from "../config/settings.ts";
import { Failure } from "../kernel/errors.ts";
import { ExitError } from "../kernel/exit-error.ts";
import { isCertificateError } from "../kernel/network/certificate-errors.ts";
import { isConnectionLost, LoginRefused, READ_ONLY } from "../store/postgres/connection-lost.ts";
import { ToolRefused } from "../store/postgres/tools.ts";
import { isWritable } from "../store/sqlite/open.ts";

/** A failed sync, or damage that the file system reports. */
const STORAGE_FAILED = /^SQLITE_IOERR_(FSYNC|DIR_FSYNC|CORRUPTFS|DATA)$/;

/** SQLITE_IOERR_SHMSIZE: the -shm file could not be extended. */
const DISK_FULL = /^(SQLITE_FULL|SQLITE_IOERR_SHMSIZE|ENOSPC|53100)$/;

const NO_WRITES =
  "The database accepts no changes: default_transaction_read_only is on for it or for its user. Turn that off, or name another database in KEYRACK_DATABASE_URL.";

const POOLER =
  "The address in KEYRACK_DATABASE_URL seems to be that of a pooler such as PgBouncer. Use that of PostgreSQL itself (docs/scale.md)";

/**
 * A pooler refuses our session settings, or shares sessions and with them the names of prepared statements. Its other
 * errors, such as that its server does not respond, may pass.
 */
function isFromPooler(code: string, message: string): boolean {
  return /^(42P05|26000)$/.test(code) || (code === "08P01" && message.includes("unsupported startup parameter"));
}

/** What to do about a refused login. */
function adviceOn(error: unknown): string {
  const { message, cause } = error as Error;
  if (/does not support SSL/.test(message))
    return "Turn on TLS in PostgreSQL, or use sslmode=disable in KEYRACK_DATABASE_URL.";
  if (isCertificateError(cause)) return "Name the CA of its certificate with sslrootcert in KEYRACK_DATABASE_URL.";
  return "Check KEYRACK_DATABASE_URL.";
}

export function databaseDamaged(finding: string): ExitError {
  return new ExitError(
    `The database is damaged (${finding}). Restore a backup with keyrack restore --force, or start with --force-read-only to read what is left.`,
    70,
  );
}

/** Where the files of an instance are, for messages. */
export function placeOf({ data_dir, database_url }: Pick<Settings, "data_dir" | "database_url">): string {
  return database_url.kind === "sqlite" ? dirname(resolve(database_url.file)) : resolve(data_dir);
}

/** SQLite creates files beside a database even to read it, unless it was closed cleanly (store/sqlite/open.ts). */
function cannotOpen(message: string, place: string): string {
  const problem = `The database in ${place} cannot be opened: ${message}.`;
  return isWritable(place)
    ? problem
    : `${problem} That folder is read-only: copy the data dir to a writable one first.`;
}

/** Converts errors that are known to be the operator's to fix; returns any other error unchanged. */
export function toStartRefused(error: unknown, place: string): unknown {
  if (error instanceof Failure && error.cause) return toStartRefused(error.cause, place);
  // An error of psql has the SQLSTATE that it reported, of which more is known below.
  if (error instanceof ExitError && !(error instanceof ToolRefused)) return error;
  const { code = "", message = "", path } = error as { code?: string; message?: string; path?: string };
  if (DISK_FULL.test(code)) {
    const disk = code === "53100" ? "PostgreSQL's disk" : `The disk of ${path ?? place}`;
    return new ExitError(`${disk} is full. Free up space on it, then try again.`, 1);
  }
  if (code === "EACCES") return new ExitError(`Permission denied: ${message}`, 2);
  if (/^SQLITE_(CORRUPT|NOTADB)/.test(code)) return databaseDamaged(message);
  if (code.startsWith("SQLITE_IOERR"))
    return new ExitError(
      `The database cannot be read or written: ${message}. Check the disk.`,
      STORAGE_FAILED.test(code) ? 70 : 1,
    );
  if (/^SQLITE_(CANTOPEN|READONLY|PERM|AUTH)/.test(code)) return new ExitError(cannotOpen(message, place), 2);
  if (/^SQLite |^PostgreSQL /.test(message)) return new ExitError(message, 2);
  if (code === "55P03")
    return new ExitError(
      "The migration could not lock a table that another session, such as a backup, is using. Nothing was changed; try again.",
      3,
    );
  if (code === READ_ONLY) return new ExitError(NO_WRITES, 3);
  if (isFromPooler(code, message)) return new ExitError(`${POOLER}: ${message}.`, 2);
  if (error instanceof LoginRefused || code === "3D000" || code.startsWith("28"))
    return new ExitError(`The database refused the connection: ${message}. ${adviceOn(error)}`, 3);
  if (isConnectionLost(error)) return new ExitError(`The database cannot be reached: ${message || code}`, 3);
  return error;
}
