// Puts an answer on the wire: the headers every answer carries, the error envelope, and nothing a caller sent unescaped.
import { Failure } from "../kernel/errors.ts";
import { HttpResponse } from "./request.ts";
import { ResponseHead, HeaderTemplate, type FastResponse } from "./fast/response.ts";

export const JSON_TYPE = "application/json; charset=utf-8";

/** The headers of every answer, and those of answers already met, put together once: frozen headers never change. */
export class HeaderDefaults {
  readonly fields: Readonly<Record<string, string>>;
  readonly #known = new WeakMap<HttpResponse["headers"], HeaderTemplate>();

  constructor(fields: Readonly<Record<string, string>>) {
    this.fields = fields;
  }

  with(headers: HttpResponse["headers"]): HeaderTemplate {
    const known = this.#known.get(headers);
    if (known) return known;
    const shape = new HeaderTemplate({ ...this.fields, ...headers });
    if (Object.isFrozen(headers)) this.#known.set(headers, shape);
    return shape;
  }
}

/** On every answer (decision 21, security 13). HSTS only where the public address is https. */
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

const JSON_HEADERS = Object.freeze({ "content-type": JSON_TYPE });

export function jsonResponse(status: number, value: unknown, headers?: Readonly<Record<string, string>>): HttpResponse {
  return jsonTextResponse(status, JSON.stringify(value), headers);
}

/** Of a text that is JSON already. */
export function jsonTextResponse(
  status: number,
  text: string,
  headers?: Readonly<Record<string, string>>,
): HttpResponse {
  return new HttpResponse(status, text, headers ? { "content-type": JSON_TYPE, ...headers } : JSON_HEADERS);
}

export function failureResponse(failure: Failure, presented: boolean): HttpResponse {
  const { headers, retryAfterSeconds } = failure.extra;
  const extra: Record<string, string> = { ...headers };
  if (failure.status === 401) {
    extra["www-authenticate"] = `Bearer realm="keyrack"${presented ? ', error="invalid_token"' : ""}`;
  }
  if (failure.code === "insufficient_scope")
    extra["www-authenticate"] = scopeChallenge(failure.extra.missing_scopes ?? []);
  const retry = retryAfterSeconds ?? (failure.status === 503 ? 1 : undefined);
  if (retry !== undefined) extra["retry-after"] = String(Math.max(1, Math.ceil(retry)));
  return jsonResponse(failure.status, failure.body(), extra);
}

/** RFC 6750 scope-token characters only, at most 1 KiB: a scope is free text and could break the header (199). */
export function scopeChallenge(scopes: readonly string[]): string {
  const text = scopes.join(" ");
  const speakable = text.length > 0 && text.length <= 1024 && /^[\x21\x23-\x5b\x5d-\x7e ]+$/.test(text);
  return `Bearer realm="keyrack", error="insufficient_scope"${speakable ? `, scope="${text}"` : ""}`;
}

export function send(res: FastResponse, answer: HttpResponse, requestId: string, defaults: HeaderDefaults): void {
  if (res.destroyed || res.headersSent) return;
  res.req.forget();
  const { status, body } = answer;
  const shape = defaults.with(answer.headers);
  if (Array.isArray(body)) return sendPieces(res, status, shape, requestId, body as readonly Uint8Array[]);
  const whole = body as string | Uint8Array | null;
  const length = whole === null ? 0 : Buffer.byteLength(whole);
  res.begin(status, new ResponseHead(shape, requestId, status === 204 || status === 304 ? null : length));
  // As many bytes as characters means ASCII, which node writes faster as latin1.
  if (typeof whole === "string") res.end(whole, length === whole.length ? "latin1" : "utf8");
  else res.end(whole ?? undefined);
}

/** The pieces are in memory already: they are handed to the socket as they are, without being joined first. */
function sendPieces(
  res: FastResponse,
  status: number,
  shape: HeaderTemplate,
  requestId: string,
  pieces: readonly Uint8Array[],
): void {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  res.begin(status, new ResponseHead(shape, requestId, length));
  if (res.req.method !== "HEAD") {
    res.cork();
    for (const piece of pieces) res.write(piece);
    res.uncork();
  }
  res.end();
}
