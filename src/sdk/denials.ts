// Every response that the library sends in place of the vendor's handler: status, code and message in one table, and
// its headers. Input from a caller or a feed reaches a header only if all of its characters are safe: a scope with a
// line break in `WWW-Authenticate` would make Node throw while it writes the header.

import type { DenialName } from "../kernel/denials.ts";

export const denials = {
  missing_key: [401, "missing_key", "An API key is required: send Authorization: Bearer <key>."],
  invalid_key: [401, "invalid_key", "Invalid API key."],
  expired_key: [401, "expired_key", "This API key has expired."],
  tenant_suspended: [403, "tenant_suspended", "This account is suspended."],
  key_disabled: [403, "key_disabled", "This API key is disabled."],
  ip_not_allowed: [403, "ip_not_allowed", "This API key may not be used from this address."],
  insufficient_scope: [403, "insufficient_scope", "The API key lacks a required scope."],
  rate_limited: [429, "rate_limited", "Too many requests."],
  quota_exceeded: [429, "quota_exceeded", "This API key has used up its quota."],
  unavailable: [503, "unavailable", "Keys cannot be verified right now. Try again shortly."],
  idempotency_key_required: [400, "invalid_request", "Send an Idempotency-Key header with this request."],
  idempotency_key_invalid: [400, "invalid_request", "The Idempotency-Key header is not valid."],
  idempotency_in_progress: [409, "conflict", "A request with this Idempotency-Key is still in progress."],
  idempotency_not_kept: [409, "conflict", "The first response was too large to keep."],
  idempotency_mismatch: [422, "idempotency_mismatch", "This Idempotency-Key was used with another request."],
  idempotency_unavailable: [
    503,
    "unavailable",
    "Idempotency is temporarily unavailable. The request was not processed; try again shortly.",
  ],
  body_invalid: [400, "invalid_request", "The request body is not valid JSON: its text must be valid Unicode."],
  body_too_large: [413, "payload_too_large", "The request body is too large."],
} as const satisfies Record<DenialName, readonly [status: number, code: string, message: string]>;

/** A complete HTTP response, for an adapter to write unchanged. */
export type TextResponse = { status: number; headers: Record<string, string>; body: string };

type DenialExtra = {
  missing?: readonly string[];
  required?: readonly string[];
  retryAfterSeconds?: number | null;
  /** The quota that refuses, and when it is refilled. */
  quota?: { id: string; resetsAt: string | null };
  headers?: Record<string, string>;
};

const REALM = 'Bearer realm="keyrack"';
const SCOPE_ATTRIBUTE_MAX = 1024;
// RFC 6750 §3 scope-token: ASCII without space, quote and backslash.
const SCOPE_TOKEN = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

export function denialResponse(name: DenialName, extra: DenialExtra = {}): TextResponse {
  const [status, code, message] = denials[name];
  const { missing, quota } = extra;
  const error = {
    code,
    message,
    ...(missing && { missing_scopes: missing }),
    ...(quota && { quota: quota.id, resets_at: quota.resetsAt }),
  };
  const headers: Record<string, string> = {
    "content-type": "application/json; charset=utf-8",
    "cache-control": "no-store",
    ...extra.headers,
  };
  const challenge = challengeFor(name, extra.required ?? []);
  if (challenge) headers["www-authenticate"] = challenge;
  const wait = extra.retryAfterSeconds ?? (status === 503 ? 1 : null);
  if (wait !== null) headers["retry-after"] = String(Math.max(1, Math.ceil(wait)));
  return { status, headers, body: JSON.stringify({ error }) };
}

function challengeFor(name: DenialName, required: readonly string[]): string | null {
  if (name === "missing_key") return REALM;
  if (name === "invalid_key" || name === "expired_key") return `${REALM}, error="invalid_token"`;
  if (name !== "insufficient_scope") return null;
  const scope = required.join(" ");
  const safe = scope.length <= SCOPE_ATTRIBUTE_MAX && required.every((one) => SCOPE_TOKEN.test(one));
  return `${REALM}, error="insufficient_scope"${safe ? `, scope="${scope}"` : ""}`;
}
