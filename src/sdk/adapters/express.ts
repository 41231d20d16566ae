// express (4 and 5): `protect` and `idempotent` are middlewares. The context is `req.keyrack`.
// Errors go to `next`, never into a rejected promise, which ends the process under express 4.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context } from "../context.ts";
import type { ProtectOptions } from "../guard.ts";
import type { IdempotentOptions } from "../idempotency/idempotency.ts";
import { type Keyrack, internalsOf } from "../internals.ts";
import {
  beginOnNode,
  toIncomingRequest,
  NodeCapture,
  type NodeRequest,
  onResponseClosed,
  setHeaders,
  writeResponse,
} from "./node-response.ts";

declare global {
  namespace Express {
    interface Request {
      /** The verified key; null on a skipped route. Set by `protect`. */
      keyrack?: Context | null;
    }
  }
}

type Next = (error?: unknown) => void;
type Routed = NodeRequest & { baseUrl?: string; route?: { path?: unknown } };

export function protect<Req extends IncomingMessage = IncomingMessage>(
  keyrack: Keyrack,
  options?: ProtectOptions<Req>,
) {
  const guard = internalsOf(keyrack).guard<Req>(options);
  return (req: Req, res: ServerResponse, next: Next): void => {
    const request = req as unknown as Routed;
    const run = async () => {
      const admitted = await guard.admit(req, toIncomingRequest(request));
      onResponseClosed(res, (status) => admitted.done(status, routeOf(request)));
      if (admitted.denial) return writeResponse(res, admitted.denial);
      setHeaders(res, admitted.headers);
      request.keyrack = admitted.context;
      next();
    };
    run().catch(next);
  };
}

export function idempotent<Req extends IncomingMessage, Res extends ServerResponse>(
  keyrack: Keyrack,
  handler: (req: Req, res: Res, next: Next) => unknown,
  options?: IdempotentOptions,
) {
  const route = internalsOf(keyrack).idempotent(options);
  return (req: Req, res: Res, next: Next): void => {
    const run = async () => {
      const begun = await beginOnNode(route, req);
      if (begun.kind === "respond") return writeResponse(res, begun.response);
      if (begun.kind === "skip") return void (await handler(req, res, next));
      const capture = new NodeCapture(res, begun.claim);
      // "route" and "router" are express's signals to skip handlers, not errors.
      const watched: Next = (error) => {
        if (!error || error === "route" || error === "router") next(error);
        else void capture.failed().then(() => next(error));
      };
      await capture.run(() => handler(req, res, watched));
    };
    run().catch(next);
  };
}

function routeOf(req: Routed): string | null {
  const path = req.route?.path;
  return typeof path === "string" ? (req.baseUrl ?? "") + path : null;
}
