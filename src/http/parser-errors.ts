// Refuses what node's parser rejects, with the error envelope, on the socket itself and after the responses that are
// due before it. Node reports every further packet of such a connection again, so a pending refusal is queued once.
import { STATUS_CODES, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { fail, type Failure, type FailureName } from "../kernel/errors.ts";
import { LAST_EXCHANGE, type TrackedSocket } from "./connections.ts";
import type { HeaderDefaults, HttpResponse } from "./response.ts";

const FAILURES: Record<string, FailureName> = {
  HPE_HEADER_OVERFLOW: "headers_too_large",
  ERR_HTTP_REQUEST_TIMEOUT: "request_timeout",
};

const queued = new WeakSet<Socket>();

export function refuseParserError(
  error: NodeJS.ErrnoException,
  socket: TrackedSocket,
  textOf: (failure: Failure, req: IncomingMessage | undefined) => Promise<string>,
): void {
  if (queued.has(socket)) return;
  const { req, res } = socket[LAST_EXCHANGE] ?? {};
  const own = req?.complete === false ? req : undefined; // the refused request, if its headers have arrived
  const refuse = (): void => {
    queued.delete(socket);
    if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
    const failure = fail(FAILURES[error.code ?? ""] ?? "malformed_request");
    void textOf(failure, own).then((text) => {
      if (own && res?.headersSent)
        socket.destroySoon(); // it has its response meanwhile
      else socket.end(text);
    });
  };
  // Its own body is malformed. Once its response has begun, a refusal would be read as part of that response, or as a
  // second one.
  if (own && res?.headersSent) return void (res.writableFinished ? socket.destroySoon() : socket.destroy());
  if (own || !res || res.writableFinished || socket.destroyed) return refuse();
  // Complete requests that came before the malformed one get their responses first, or they would seem refused.
  queued.add(socket);
  res.once("close", refuse);
}

/** A whole response as sent over the wire. */
export function rawResponse(response: HttpResponse, requestId: string, defaults: HeaderDefaults): string {
  const { status, headers } = response;
  const body = response.body as string;
  const all = { "request-id": requestId, ...defaults.fields, ...headers, connection: "close" };
  const lines = Object.entries({ ...all, "content-length": String(Buffer.byteLength(body)) });
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${head}\r\n${body}`;
}
