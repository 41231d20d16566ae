// Whether an error means that the connection to PostgreSQL is gone. On its own, so that asking does not load pg.

export function isLost(error: unknown): boolean {
  const { code = "", message = "" } = error as { code?: string; message?: string };
  if (/^(08|57P0|25P03)/.test(code)) return true;
  if (/^(ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|ENOENT)$/.test(code)) return true;
  return /Connection terminated|not queryable|Query read timeout|timeout exceeded when trying to connect|connection timeout/i.test(
    message,
  );
}
