// hono: `protect` is a middleware, `idempotent` wraps a handler. The context is `c.get("keyrack")`.
// Hono turns a thrown error into a response before it reaches a middleware, so the status is set after `next`.

import type { Context as HonoContext } from "hono";
import type { Context } from "../context.ts";
import type { ProtectOptions } from "../protect-options.ts";
import { sha256HexParts } from "../hashing.ts";
import type { IdempotentOptions, IdempotentRequest } from "../idempotency/idempotency.ts";
import type { Keyrack } from "../instance.ts";
import { internalsOf } from "../internals.ts";
import type { SocketLike } from "./peer.ts";
import { beginOnWeb, toIncomingRequest, toResponse, runClaimed, socketOf } from "./web-response.ts";

declare module "hono" {
  interface ContextVariableMap {
    /** The verified key; null on a skipped route. Set by `protect`. */
    keyrack: Context | null;
  }
}

type HonoRoute = { path: string; method: string; handler: { length: number } };

/** The members of hono's Context that are used, so that its types are not required. */
export type HonoLike = {
  req: {
    raw: Request;
    path: string;
    arrayBuffer(): Promise<ArrayBuffer>;
    /** The bodies that were read, by kind: hono makes other kinds from the first. */
    bodyCache?: { formData?: FormData | Promise<FormData> | undefined };
    matchedRoutes?: HonoRoute[];
    /** The match that runs; after `next()`, the last one that ran. */
    routeIndex?: number;
  };
  res: Response;
  /** Whether `res` is set. */
  finalized?: boolean;
  error?: Error | undefined;
  /** Where hono's own server for node passes the request. */
  env?: unknown;
  header(name: string, value: string): void;
  set(name: "keyrack", value: Context | null): void;
  get(name: "keyrack"): Context | null;
};

export function protect<C extends HonoLike = HonoContext>(keyrack: Keyrack, options?: ProtectOptions<C>) {
  const guard = internalsOf(keyrack).guard<C>(options);
  return async (c: C, next: () => Promise<void>): Promise<Response | undefined> => {
    const { incoming } = (c.env ?? {}) as { incoming?: { socket?: SocketLike } };
    const socket = incoming?.socket ?? socketOf(c.req.raw);
    const admitted = await guard.admit(c, toIncomingRequest(c.req.raw, c.req.path, socket));
    if (admitted.denial) {
      admitted.done(admitted.denial.status, routeOf(c, 1));
      return toResponse(admitted.denial);
    }
    const headers = Object.entries(admitted.headers);
    for (const [name, value] of headers) c.header(name, value);
    c.set("keyrack", admitted.context);
    await next();
    // Hono leaves what was set before out of a Response that the handler made itself.
    const missing = headers.filter(([name]) => c.res.status >= 200 && !c.res.headers.has(name));
    for (const [name, value] of missing) c.header(name, value);
    admitted.done(c.res.status, routeOf(c, 0));
    return undefined;
  };
}

/** Undefined if the handler calls `next`. */
type Made = Response | void;

export function idempotent<C extends HonoLike = HonoContext>(
  keyrack: Keyrack,
  handler: (c: C, next: () => Promise<void>) => Made | Promise<Made>,
  options?: IdempotentOptions,
) {
  const route = internalsOf(keyrack).idempotent(handler, options);
  return async (c: C, next: () => Promise<void>): Promise<Made> => {
    const body = () => cachedBody(c.req).catch(() => ({ used: true }) as const); // a middleware threw the same error
    const begun = await beginOnWeb(route, c.req.raw, c.get("keyrack"), body);
    if (begun.kind === "respond") return toResponse(begun.response);
    if (begun.kind === "skip") return handler(c, next);
    const { claim } = begun;
    const response = await runClaimed(claim, async () => {
      const made = await handler(c, next);
      // The error of a handler behind `next`, which hono has turned into a response.
      if (c.error) await claim.release();
      // The response of a handler behind `next`: hono ignores what this one returns.
      const response = c.finalized ? c.res : made;
      if (!response) throw new Error("the handler made no response");
      return response;
    });
    if (c.finalized) c.res = response;
    return response;
  };
}

/** Hono caches a body that a middleware has read by the methods of `c.req`. */
async function cachedBody(req: HonoLike["req"]): Promise<IdempotentRequest["body"]> {
  const cache = req.bodyCache ?? {};
  const [first] = Object.keys(cache);
  if (!first) return { used: true };
  // Made into bytes, a form gets a new random boundary each time.
  if (first !== "formData" || !cache.formData) return new Uint8Array(await req.arrayBuffer());
  const fields = [...(await cache.formData)].map(async ([name, value]) => {
    if (typeof value === "string") return [name, value];
    return [name, value.name, value.type, sha256HexParts([new Uint8Array(await value.arrayBuffer())])];
  });
  return { parsed: await Promise.all(fields) };
}

/**
 * The first handler among the matches, beginning `ahead` of the one that hono is at. Matches behind it, such as a
 * catch-all, do not run. What hono's `use` registers may respond in the place of a handler, but is not the route.
 */
function routeOf({ req: { matchedRoutes = [], routeIndex = 0 } }: HonoLike, ahead: 0 | 1): string | null {
  const isMiddleware = ({ method, handler }: HonoRoute) => method === "ALL" && handler.length > 1;
  const route = matchedRoutes.slice(routeIndex + ahead).find((match) => !isMiddleware(match));
  return (route ?? matchedRoutes.at(-1))?.path ?? null;
}
