// What the parser cannot read: refused over the bare socket with the envelope, in its turn. Node reports every further
// packet of such a connection again, so a connection that still waits for its turn is noted once.
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { fail, type Failure, type FailureName } from "../kernel/errors.ts";
import { LAST_EXCHANGE, type TrackedSocket } from "./connections.ts";
import { jsonResponse, type HeaderDefaults } from "./response.ts";

const RAW: Record<string, FailureName> = {
  HPE_HEADER_OVERFLOW: "headers_too_large",
  ERR_HTTP_REQUEST_TIMEOUT: "request_timeout",
};

const waiting = new WeakSet<Socket>();

export function refuseParserError(
  error: NodeJS.ErrnoException,
  socket: TrackedSocket,
  textOf: (failure: Failure) => string,
): void {
  if (waiting.has(socket)) return;
  const refuse = (): void => {
    waiting.delete(socket);
    if (error.code === "ECONNRESET" || !socket.writable) socket.destroy();
    else socket.end(textOf(fail(RAW[error.code ?? ""] ?? "malformed_request")));
  };
  const { req, res } = socket[LAST_EXCHANGE] ?? {};
  if (!req || !res || res.writableFinished || socket.destroyed) return refuse();
  if (!req.complete) {
    // It broke in its own body. Words of ours in the midst of its answer would be read as part of that.
    if (res.headersSent) socket.destroy();
    else refuse();
    return;
  }
  // Whole requests that came before the broken one are answered first, in order, or they would seem refused.
  waiting.add(socket);
  res.once("close", refuse);
}

/** A whole answer as it goes over the wire. */
export function rawResponse(failure: Failure, requestId: string, defaults: HeaderDefaults): string {
  const body = JSON.stringify(failure.body());
  const { status, headers } = jsonResponse(failure.status, null);
  const all = { "request-id": requestId, ...defaults.fields, ...headers, connection: "close" };
  const lines = Object.entries({ ...all, "content-length": String(Buffer.byteLength(body)) });
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${head}\r\n${body}`;
}
