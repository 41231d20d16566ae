// express (4 and 5): `protect` and `idempotent` are middlewares. The context is `req.keyrack`.
// Errors go to `next`, never into a rejected promise, which ends the process under express 4.

import type { Request as ExpressRequest, Response as ExpressResponse } from "express";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Context } from "../context.ts";
import type { ProtectOptions } from "../protect-options.ts";
import type { IdempotentOptions } from "../idempotency/idempotency.ts";
import type { Keyrack } from "../instance.ts";
import { internalsOf } from "../internals.ts";
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
type Routed = NodeRequest & {
  baseUrl?: string;
  route?: { path?: string | RegExp | (string | RegExp)[] };
  app?: { enabled?(setting: string): boolean };
};

/** The middleware accepts any node:http request: it also fits servers that call it without express's types. */
export function protect<Req extends IncomingMessage = ExpressRequest>(keyrack: Keyrack, options?: ProtectOptions<Req>) {
  const guard = internalsOf(keyrack).guard<Req>(options);
  return (req: IncomingMessage, res: ServerResponse, next: Next): void => {
    const request: Routed = req;
    const run = async () => {
      const admitted = await guard.admit(req as Req, toIncomingRequest(request));
      onResponseClosed(res, (status) => admitted.done(status, routeOf(request)));
      if (admitted.denial) return writeResponse(res, admitted.denial);
      setHeaders(res, admitted.headers);
      request.keyrack = admitted.context;
      next();
    };
    run().catch(next);
  };
}

export function idempotent<Req extends IncomingMessage = ExpressRequest, Res extends ServerResponse = ExpressResponse>(
  keyrack: Keyrack,
  handler: (req: Req, res: Res, next: Next) => unknown,
  options?: IdempotentOptions,
) {
  const route = internalsOf(keyrack).idempotent(handler, options);
  return (req: Req, res: Res, next: Next): void => {
    const run = async () => {
      const begun = await beginOnNode(route, req);
      if (begun.kind === "respond") return writeResponse(res, begun.response);
      if (begun.kind === "skip") return void (await handler(req, res, next));
      const capture = new NodeCapture(res, begun.claim);
      const watched: Next = (error) => {
        // "route" and "router" are express's signals to skip handlers, not errors.
        if (!error || error === "route" || error === "router") {
          // Errors of the handlers that follow are only visible as the response of express's error handler.
          capture.isFinal = (status) => status < 500;
          capture.isDelegated = true;
          next(error);
        } else void capture.failed().then(() => next(error));
      };
      await capture.run(() => handler(req, res, watched));
    };
    run().catch(next);
  };
}

/**
 * The path that the route was declared with, or the paths of a list, after that of its router. `baseUrl` is as the
 * client spelled it: each spelling would be a route of its own, and a workspace has a bounded number of them.
 */
function routeOf({ route, baseUrl = "", app }: Routed): string | null {
  const path = route?.path;
  if (path === undefined) return null;
  const mount = app?.enabled?.("case sensitive routing") ? baseUrl : baseUrl.toLowerCase();
  return [path]
    .flat()
    .map((one) => `${mount}${String(one)}`)
    .join("|");
}
