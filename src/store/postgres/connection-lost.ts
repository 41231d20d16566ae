// Recognises a lost PostgreSQL connection by its error. A file of its own so that callers need not load pg.
import { ExitError } from "../../kernel/exit-error.ts";

/** A command needs the database alone (maintenance.ts): until it has ended, it counts as out of reach. */
export class MaintenanceRunning extends ExitError {
  readonly code = "08004"; // the server rejected the connection
  constructor(message: string) {
    super(message, 1);
  }
}

/** Counts as out of reach too: its data are older than what other processes have read and acknowledged. */
export class StandbyServer extends Error {
  readonly code = "08004";
}

/** A file that the URL names cannot be read: a start ends, a running server tries again. `cause` says why. */
export class UrlUnusable extends ExitError {
  readonly code = "08004";
  constructor(cause: Error) {
    super(`The URL of the database cannot be used: ${cause.message}.`, 2);
    this.cause = cause;
  }
}

/** The server refuses this login, or the two cannot agree on TLS. `cause` is the error itself. */
export class LoginRefused extends Error {
  readonly code = "08004";
}

/** This session may only read, so no write can succeed on it. */
export class ReadOnlyServer extends Error {
  readonly code = READ_ONLY;
}

export const READ_ONLY = "25006";

export function isConnectionLost(error: unknown): boolean {
  const { code = "", message = "" } = error as { code?: string; message?: string };
  if (/^(08|57P0|25P03)/.test(code)) return true;
  if (/^(ECONNRESET|EPIPE|ETIMEDOUT)$/.test(code)) return true;
  return /Connection terminated|not queryable/i.test(message) || isUnreachable(error) || isTimeout(error);
}

/** No server accepts connections there, or not yet. */
export function isUnreachable(error: unknown): boolean {
  const { code = "", syscall = "" } = error as { code?: string; syscall?: string };
  if (code === "ENOENT" && syscall === "connect") return true; // a Unix socket
  return /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|57P03|08004)$/.test(code);
}

/** The server may still be working on it: asking again at once would only add to its load. */
export function isTimeout(error: unknown): boolean {
  const { code = "", message = "" } = error as { code?: string; message?: string };
  const words = /Query read timeout|timeout expired|timeout exceeded when trying to connect|connection timeout/i;
  return code === "ETIMEDOUT" || words.test(message);
}
