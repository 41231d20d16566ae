// A response as a plain value, the headers that every response carries, and the error envelope.
import { validateHeaderName, validateHeaderValue, type ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { ownerOf } from "../domain/core/actor.ts";
import type { Ctx } from "../domain/core/context.ts";
import type { JsonText } from "../domain/core/list.ts";
import { fail, type Failure } from "../kernel/errors.ts";
import { rateLimitHeaders } from "../kernel/ratelimit/headers.ts";

type Headers = Readonly<Record<string, string>>;

export class HttpResponse {
  readonly status: number;
  readonly headers: Headers;
  /** A list of chunks is sent without being joined first; a stream is sent as fast as the client reads it. */
  readonly body: string | Uint8Array | readonly Uint8Array[] | Readable | null;

  constructor(status: number, body: HttpResponse["body"], headers: Headers = {}) {
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

/** Takes the one response of a request. Must not throw. */
export type Respond = (response: HttpResponse) => void;

/** For a response that is not sent: what its stream holds is released. */
export function discardResponse({ body }: HttpResponse): void {
  if (body instanceof Readable) body.destroy();
}

export const JSON_TYPE = "application/json; charset=utf-8";
const JSON_HEADERS = Object.freeze({ "content-type": JSON_TYPE });

export function jsonResponse(status: number, value: unknown, headers?: Headers): HttpResponse {
  return jsonTextResponse(status, JSON.stringify(value), headers);
}

/** For text that is JSON already, or chunks of it. */
export function jsonTextResponse(status: number, text: JsonText<unknown>["body"], headers?: Headers): HttpResponse {
  return new HttpResponse(status, text, headers ? { "content-type": JSON_TYPE, ...headers } : JSON_HEADERS);
}

/**
 * A 304, memoized by its tag: most polls get the same. A tag is always sent with the same headers. bench:
 * feed/unchanged-poll
 */
export function notModified({ services, actor }: Ctx, tag: string, headers: Headers): HttpResponse {
  const known = services.notModified.get(tag);
  if (known) return known as HttpResponse; // the domain has no type for it
  const response = new HttpResponse(304, null, Object.freeze({ etag: `W/"${tag}"`, ...headers }));
  services.notModified.set(ownerOf(actor), tag, response);
  return response;
}

const NO_CREDENTIAL = 'Bearer realm="keyrack"';
const INVALID_CREDENTIAL = `${NO_CREDENTIAL}, error="invalid_token"`;

/**
 * Headers of the refusals without a credential or with a wrong one; frozen, see HeaderDefaults. bench: parts/refused
 */
const CHALLENGES = [NO_CREDENTIAL, INVALID_CREDENTIAL].map((challenge) =>
  Object.freeze({ ...JSON_HEADERS, "www-authenticate": challenge }),
);

/** `presented`: whether the request carried a credential at all (RFC 6750, 3.1). */
export function failureResponse(failure: Failure, { presented = false } = {}): HttpResponse {
  if (failure.status === 401)
    return new HttpResponse(401, JSON.stringify(failure.body()), CHALLENGES[Number(presented)]);
  const { retryAfterSeconds } = failure;
  const { headers, rateLimit, closes } = failure.extra;
  const extra: Record<string, string> = { ...headers, ...(rateLimit && rateLimitHeaders([rateLimit])) };
  if (closes) extra.connection = "close";
  if (failure.code === "insufficient_scope")
    extra["www-authenticate"] = scopeChallenge(failure.extra.missing_scopes ?? []);
  if (retryAfterSeconds !== undefined) extra["retry-after"] = String(Math.max(1, Math.ceil(retryAfterSeconds)));
  return jsonResponse(failure.status, failure.body(), extra);
}

/** RFC 6750 scope-token characters only, at most 1 KiB: a scope is free text and could break out of the header. */
function scopeChallenge(scopes: readonly string[]): string {
  const text = scopes.join(" ");
  const isSafe = text.length > 0 && text.length <= 1024 && /^[\x21\x23-\x5b\x5d-\x7e ]+$/.test(text);
  return `Bearer realm="keyrack", error="insufficient_scope"${isSafe ? `, scope="${text}"` : ""}`;
}

/** `Array.isArray` does not narrow a readonly array. */
export function isChunks(body: HttpResponse["body"]): body is readonly Uint8Array[] {
  return Array.isArray(body);
}

/** Bytes of the body; null if they are not known yet, or if the status forbids a body. */
export function contentLength({ status, body }: HttpResponse): number | null {
  if (status === 204 || status === 304 || body instanceof Readable) return null;
  if (body === null) return 0;
  return isChunks(body) ? body.reduce((sum, chunk) => sum + chunk.length, 0) : Buffer.byteLength(body);
}

/** By these headers node decides how to send the body and whether to keep the connection: it must see them. */
const READ_BY_NODE = new Set([
  "connection",
  "content-length",
  "date",
  "expect",
  "keep-alive",
  "trailer",
  "transfer-encoding",
]);

/** Validated headers that many responses share. */
export class HeaderTemplate {
  readonly fields: readonly (readonly [name: string, value: string])[];
  /** As header lines; null if node must see them one by one. */
  readonly lines: string | null;

  constructor(headers: Headers) {
    this.fields = Object.entries(headers);
    for (const [name, value] of this.fields) {
      validateHeaderName(name);
      validateHeaderValue(name, value);
    }
    const opaque = this.fields.every(([name]) => !READ_BY_NODE.has(name.toLowerCase()));
    this.lines = opaque ? this.fields.map(([name, value]) => `${name}: ${value}\r\n`).join("") : null;
  }

  /** Every header of one response, in the order in which they are sent. */
  pairs(requestId: string, length: number | null): [name: string, value: string][] {
    const pairs: [string, string][] = [["request-id", requestId]];
    for (const [name, value] of this.fields) pairs.push([name, value]);
    if (length !== null) pairs.push(["content-length", String(length)]);
    return pairs;
  }
}

/** The headers of every response. Memoizes their union with a response's own headers if those are frozen. */
export class HeaderDefaults {
  readonly fields: Headers;
  readonly #templates = new WeakMap<Headers, HeaderTemplate>();

  constructor(fields: Headers) {
    this.fields = fields;
  }

  /** Throws if a header would break out of its line. */
  with(headers: Headers): HeaderTemplate {
    const known = this.#templates.get(headers);
    if (known) return known;
    const template = new HeaderTemplate({ ...this.fields, ...headers });
    if (Object.isFrozen(headers)) this.#templates.set(headers, template);
    return template;
  }
}

/** HSTS only if the public address is https. */
export function defaultHeaders(publicUrl: string | null): HeaderDefaults {
  return new HeaderDefaults({
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    ...(publicUrl?.startsWith("https:") && { "strict-transport-security": "max-age=31536000" }),
  });
}

/** Refuses a request that no lane has taken yet. */
export function sendRefusal(
  res: ServerResponse,
  response: HttpResponse,
  requestId: string,
  defaults: HeaderDefaults,
): void {
  if (res.destroyed || res.headersSent) return;
  const pairs = defaults.with(response.headers).pairs(requestId, contentLength(response));
  res.writeHead(response.status, pairs.flat());
  res.end(response.body);
}

/** Resolves a response that needs waiting for; a failure becomes a 500. */
export function respondLater(response: Promise<HttpResponse>, respond: Respond): void {
  response.then(respond, () => respond(failureResponse(fail("internal_error"))));
}
