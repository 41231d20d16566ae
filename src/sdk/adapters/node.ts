// Plain node:http: `protect` and `idempotent` wrap a handler. The context is `req.keyrack`.
// An error of the handler rejects the returned promise, as it would without the wrapper. One of a function in the
// options is a 500: in `createServer(protect(…))` nothing catches it, and a request must not end the process.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { Context } from "../context.ts";
import type { ProtectOptions } from "../protect-options.ts";
import type { IdempotentOptions } from "../idempotency/idempotency.ts";
import type { Keyrack } from "../instance.ts";
import { internalsOf } from "../internals.ts";
import {
  beginOnNode,
  toIncomingRequest,
  NodeCapture,
  onResponseClosed,
  setHeaders,
  writeResponse,
} from "./node-response.ts";

/** A request behind `protect`. `idempotent` reads the stream and sets `body` and `rawBody`. */
export type ProtectedRequest<Resources = unknown> = IncomingMessage & {
  keyrack: Context<Resources> | null;
  body?: unknown;
  rawBody?: Buffer;
};
export type Handler<Resources = unknown> = (req: ProtectedRequest<Resources>, res: ServerResponse) => unknown;
const FAILED = {
  status: 500,
  headers: { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" },
  body: JSON.stringify({ error: { code: "internal_error", message: "Something went wrong." } }),
};

export type Listener = (req: IncomingMessage, res: ServerResponse) => Promise<void>;
/**
 * A listener for servers of node:http and of node:http2. The handler's types are those of node:http, which HTTP/2's own
 * are compatible with.
 */
export type ServerListener = (
  req: IncomingMessage | Http2ServerRequest,
  res: ServerResponse | Http2ServerResponse,
) => Promise<void>;

export function protect<Resources = unknown>(
  keyrack: Keyrack<Resources>,
  options: ProtectOptions<IncomingMessage>,
  handler: Handler<Resources>,
): ServerListener {
  const guard = internalsOf(keyrack).guard(options);
  if (typeof handler !== "function") throw new TypeError("keyrack: protect takes the handler as its third argument.");
  return async (request, response) => {
    const [req, res] = [request as IncomingMessage, response as ServerResponse];
    const admitted = await guard.admit(req, toIncomingRequest(req)).catch(() => null);
    if (!admitted) return writeResponse(res, FAILED);
    onResponseClosed(res, (status) => admitted.done(status, null));
    if (admitted.denial) return writeResponse(res, admitted.denial);
    setHeaders(res, admitted.headers);
    await handler(Object.assign(req, { keyrack: admitted.context as Context<Resources> | null }), res);
  };
}

export function idempotent<Resources = unknown>(
  keyrack: Keyrack<Resources>,
  handler: Handler<Resources>,
  options?: IdempotentOptions,
): Handler<Resources> {
  const route = internalsOf(keyrack).idempotent(handler, options);
  return async (req, res) => {
    const begun = await beginOnNode(route, req);
    if (begun.kind === "respond") writeResponse(res, begun.response);
    else if (begun.kind === "skip") await handler(req, res);
    else await new NodeCapture(res, begun.claim).run(() => handler(req, res));
  };
}
