// Converts the return value of an h3 handler to the Response that h3 would send, so that it can be stored for a replay.

import { BODYLESS } from "./web-response.ts";

/** The response that an h3 event prepares before its handler returns. */
export type PreparedEvent = {
  res: { status?: number | undefined; statusText?: string | undefined; headers: Headers; errHeaders?: Headers };
};

const JSON_TYPE = "application/json;charset=UTF-8";

/** What `noContent`, `redirect`, `html`, `proxy` and others of h3 return. */
type HttpResponse = { body?: unknown; status?: number; statusText?: string; headers?: HeadersInit };

const HTTP_RESPONSE = Symbol.for("h3.HTTPResponse");
/** Sent as they are; any other object is JSON. */
const BODIES = [Uint8Array, ArrayBuffer, Blob, ReadableStream, URLSearchParams, FormData];

export function isHttpResponse(value: unknown): value is HttpResponse {
  return (value as Record<symbol, unknown> | null | undefined)?.[HTTP_RESPONSE] === true;
}

/** Follows h3's rules. Moves the prepared headers into the response; otherwise h3 would add them a second time. */
export function materializeResponse(value: unknown, event: PreparedEvent): Response {
  // h3 treats a returned error like a thrown one.
  if (value instanceof Error || typeof value === "symbol") throw value;
  const made = value instanceof Response ? value : toHttpResponse(value);
  const status = made.status || event.res.status || 200;
  const statusText = made.statusText || event.res.statusText || "";
  const headers = new Headers(made.headers);
  // h3 does not add the prepared headers to an error Response.
  const keeps = !(value instanceof Response) || value.status < 400;
  const prepared = [...event.res.headers];
  for (const [name, text] of prepared) {
    if (keeps && name === "set-cookie") headers.append(name, text);
    else if (keeps) headers.set(name, text);
    event.res.headers.delete(name);
  }
  const body = BODYLESS.has(status) ? null : (made.body as BodyInit | null);
  return new Response(body, { status, statusText, headers });
}

function toHttpResponse(value: unknown): HttpResponse {
  if (value === null || value === undefined) return { body: null };
  if (isHttpResponse(value)) return value;
  if (typeof value === "string" || BODIES.some((kind) => value instanceof kind)) return { body: value };
  const body = typeof value === "bigint" ? String(value) : JSON.stringify(value);
  return { body, headers: { "content-type": JSON_TYPE } };
}
