// fastify 5: `protect` is an `onRequest` or `preHandler` hook, `idempotent` wraps a route's handler. The context is
// `request.keyrack`. Fastify parses the body before a handler runs; retries are compared by `request.rawBody` where it
// exists (plugin fastify-raw-body), otherwise by the parsed JSON. Uploads that a handler streams cannot be compared.

import type { FastifyReply, FastifyRequest } from "fastify";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { Context } from "../context.ts";
import type { ProtectOptions } from "../protect-options.ts";
import type { IdempotentOptions } from "../idempotency/idempotency.ts";
import type { Keyrack } from "../instance.ts";
import { internalsOf } from "../internals.ts";
import { beginOnNode, toIncomingRequest, NodeCapture, type NodeRequest, onResponseClosed } from "./node-response.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** The verified key; null on a skipped route. Set by `protect`. */
    keyrack?: Context | null;
  }
}

/**
 * The members of fastify's objects that are used, so that its types are not required. Those of HTTP/2 are compatible
 * with those of HTTP/1.
 */
export type RequestLike = {
  raw: IncomingMessage | Http2ServerRequest;
  body?: unknown;
  routeOptions?: { url?: string | undefined };
};
export type ReplyLike = {
  raw: ServerResponse | Http2ServerResponse;
  code(status: number): ReplyLike;
  headers(headers: Record<string, string>): ReplyLike;
  send(payload: unknown): ReplyLike;
};

export function protect(keyrack: Keyrack, options?: ProtectOptions<FastifyRequest>) {
  const guard = internalsOf(keyrack).guard<FastifyRequest>(options);
  return async (request: RequestLike, reply: ReplyLike): Promise<unknown> => {
    const admitted = await guard.admit(request as FastifyRequest, toIncomingRequest(request.raw as IncomingMessage));
    onResponseClosed(reply.raw as ServerResponse, (status) => admitted.done(status, request.routeOptions?.url ?? null));
    reply.headers(admitted.headers);
    Object.assign(request, { keyrack: admitted.context });
    const { denial } = admitted;
    // Returning the reply ends the request in fastify.
    return denial ? reply.code(denial.status).headers(denial.headers).send(denial.body) : undefined;
  };
}

export function idempotent<Req extends RequestLike = FastifyRequest, Reply extends ReplyLike = FastifyReply>(
  keyrack: Keyrack,
  handler: (request: Req, reply: Reply) => unknown,
  options?: IdempotentOptions,
) {
  const route = internalsOf(keyrack).idempotent(handler, options);
  return async (request: Req, reply: Reply): Promise<unknown> => {
    const raw = reply.raw as ServerResponse;
    // A body that fastify's parsers left unread is the handler's to read.
    const begun = await beginOnNode(route, nodeView(request), false);
    const run = () => untilResponded(handler(request, reply), raw);
    if (begun.kind === "skip") return run();
    if (begun.kind === "respond") {
      const { status, headers, body } = begun.response;
      return reply
        .code(status)
        .headers(headers)
        .send(typeof body === "string" ? body : Buffer.from(body));
    }
    const capture = new NodeCapture(raw, begun.claim);
    capture.isDelegated = true; // fastify responds, also with the undefined that a handler resolves to
    // In fastify, sending an error is throwing it.
    const send = reply.send.bind(reply);
    reply.send = (payload) => {
      if (payload instanceof Error) capture.isFinal = () => false;
      return send(payload);
    };
    return capture.run(run);
  };
}

/**
 * A handler that returns undefined, rather than a promise of it, responds by a callback. Fastify does not see that
 * through the wrapper: it would send the undefined as soon as the wrapper's promise resolves.
 */
function untilResponded(value: unknown, raw: ServerResponse): unknown {
  if (value !== undefined || raw.closed) return value;
  return new Promise<void>((resolve) => raw.once("close", () => resolve()));
}

/** The raw request with fastify's body and context. A derived object: the raw request is not modified. */
function nodeView(request: RequestLike & { rawBody?: unknown; keyrack?: Context | null }): NodeRequest {
  const { raw, rawBody, body, keyrack } = request;
  return Object.create(raw, {
    rawBody: { value: rawBody },
    body: { value: body },
    keyrack: { value: keyrack },
  }) as NodeRequest;
}
