// Any runtime whose server is a function from Request to Response: Bun, Deno, workers, Next.js route handlers. Both
// functions wrap a handler; the context is its second argument, before the arguments that the runtime passes.

import type { Context } from "../context.ts";
import type { ProtectOptions } from "../protect-options.ts";
import type { IdempotentOptions } from "../idempotency/idempotency.ts";
import type { Keyrack } from "../instance.ts";
import { internalsOf } from "../internals.ts";
import { beginOnWeb, toIncomingRequest, toResponse, runClaimed, withHeaders } from "./web-response.ts";

/** `context` is null on a skipped route. `Req`: the runtime's own class, such as `NextRequest`. */
export type Handler<Rest extends unknown[] = unknown[], Resources = unknown, Req extends Request = Request> = (
  request: Req,
  context: Context<Resources> | null,
  ...rest: Rest
) => Response | Promise<Response>;

export function protect<Rest extends unknown[], Resources = unknown, Req extends Request = Request>(
  keyrack: Keyrack<Resources>,
  options: ProtectOptions<Req>,
  handler: Handler<Rest, Resources, Req>,
): (request: Req, ...rest: Rest) => Promise<Response> {
  const guard = internalsOf(keyrack).guard(options);
  if (typeof handler !== "function") throw new TypeError("keyrack: protect takes the handler as its third argument.");
  return async (request, ...rest) => {
    const admitted = await guard.admit(request, toIncomingRequest(request, new URL(request.url).pathname));
    // The runtime responds when the handler throws; the report records a 500.
    let status = 500;
    try {
      if (admitted.denial) {
        status = admitted.denial.status;
        return toResponse(admitted.denial);
      }
      const response = await handler(request, admitted.context as Context<Resources> | null, ...rest);
      status = response.status;
      return withHeaders(response, admitted.headers);
    } finally {
      admitted.done(status, null);
    }
  };
}

export function idempotent<Rest extends unknown[], Resources = unknown, Req extends Request = Request>(
  keyrack: Keyrack<Resources>,
  handler: Handler<Rest, Resources, Req>,
  options?: IdempotentOptions,
): Handler<Rest, Resources, Req> {
  const route = internalsOf(keyrack).idempotent(handler, options);
  return async (request, context, ...rest) => {
    const begun = await beginOnWeb(route, request, context);
    if (begun.kind === "respond") return toResponse(begun.response);
    if (begun.kind === "skip") return handler(request, context, ...rest);
    return runClaimed(begun.claim, () => handler(request, context, ...rest));
  };
}
