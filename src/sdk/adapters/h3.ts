// h3 version 2: `protect` is a middleware, `idempotent` wraps a handler. The context is `event.context.keyrack`.
// A handler may return any value; under a claim it is converted to a Response by h3's rules, so that it can be stored.

import type { Context } from "../context.ts";
import type { ProtectOptions } from "../protect-options.ts";
import type { IdempotentOptions } from "../idempotency/idempotency.ts";
import type { Keyrack } from "../instance.ts";
import { internalsOf } from "../internals.ts";
import { isHttpResponse, type PreparedEvent, materializeResponse } from "./h3-response.ts";
import { beginOnWeb, runClaimed, socketOf, toIncomingRequest, toResponse } from "./web-response.ts";

/** The members of h3's event that are used, so that its types are not required. */
export type EventLike = PreparedEvent & {
  req: Request;
  url: URL;
  context: { keyrack?: Context | null; matchedRoute?: { route?: string | undefined } | undefined };
};

const NOT_FOUND = Symbol.for("h3.notFound");

export function protect<Event extends EventLike = EventLike>(keyrack: Keyrack, options?: ProtectOptions<Event>) {
  const guard = internalsOf(keyrack).guard<Event>(options);
  return async (event: Event, next: () => unknown): Promise<unknown> => {
    const incoming = toIncomingRequest(event.req, event.url.pathname, socketOf(event.req));
    const admitted = await guard.admit(event, incoming);
    const done = (status: number) => admitted.done(status, event.context.matchedRoute?.route ?? null);
    if (admitted.denial) {
      done(admitted.denial.status);
      return toResponse(admitted.denial);
    }
    for (const [name, value] of Object.entries(admitted.headers)) {
      event.res.headers.set(name, value);
      event.res.errHeaders?.set(name, value);
    }
    event.context.keyrack = admitted.context;
    try {
      const value = await next();
      done(statusOf(value, event));
      return value;
    } catch (error) {
      done((error as { status?: number } | null)?.status ?? 500);
      throw error;
    }
  };
}

export function idempotent<Event extends EventLike>(
  keyrack: Keyrack,
  handler: (event: Event) => unknown,
  options?: IdempotentOptions,
) {
  const route = internalsOf(keyrack).idempotent(handler, options);
  return async (event: Event): Promise<unknown> => {
    const { req, context } = event;
    const begun = await beginOnWeb(route, req, context.keyrack);
    if (begun.kind === "respond") return toResponse(begun.response);
    if (begun.kind === "skip") return handler(event);
    return runClaimed(begun.claim, async () => materializeResponse(await handler(event), event));
  };
}

function statusOf(value: unknown, event: EventLike): number {
  if (value === NOT_FOUND) return 404;
  if (value instanceof Error) return (value as { status?: number }).status ?? 500;
  // Any other value is a body, whose field `status` is the vendor's own.
  const status = value instanceof Response || isHttpResponse(value) ? value.status : undefined;
  return status || event.res.status || 200;
}
