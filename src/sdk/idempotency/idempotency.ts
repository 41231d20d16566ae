// The core of every adapter's `idempotent`: one run of the handler per Idempotency-Key. Requests a claim from the
// control plane before the handler runs, and responds in the handler's place when the claim is not granted. In doubt
// the handler does not run: an unreachable control plane or a malformed response is a 503
// (docs/design/0006-idempotency-fencing.md).

import { canonicalize, type Json } from "../../kernel/audit/canonical.ts";
import { LOCK_MS, TTL_MS_MAX, TTL_MS_MIN } from "../../kernel/idempotency.ts";
import { MIB } from "../../kernel/sizes.ts";
import { atMost, Claim, type Storing } from "./claim.ts";
import type { Runtime } from "../client.ts";
import type { Context } from "../context.ts";
import { type TextResponse, denialResponse } from "../denials.ts";
import { sha256HexParts } from "../hashing.ts";
import { isCount } from "../limits/check.ts";
import { need } from "../options.ts";
import { redactCredentials } from "../telemetry/redact.ts";
import { decodeBase64, replayHeaders } from "./replay.ts";

export type IdempotentOptions = {
  /** How long the response can be replayed: one minute to seven days. The control plane's default is a day. */
  ttlMs?: number | undefined;
  /** Respond 400 to a request without the header. By default its handler runs. */
  required?: boolean | undefined;
};

/**
 * The parts of a request that a claim covers. `body` is its raw bytes, or its parsed JSON when the bytes are gone;
 * `used`: its bytes are elsewhere, wholly or in part, so no retry can be compared with it.
 */
export type IdempotentRequest = {
  context: Context | null | undefined;
  method: string;
  path: string;
  query: string;
  body: Uint8Array | string | { parsed: unknown } | { used: true };
  key: string | null | undefined;
};

/** A complete response whose body may be bytes. */
export type PlainResponse = Omit<TextResponse, "body"> & { body: string | Uint8Array };

export type BeginResult =
  | { kind: "skip" }
  | { kind: "respond"; response: PlainResponse }
  | { kind: "run"; claim: Claim };

/** Called by an adapter before it runs a handler. */
export type IdempotentRoute = { begin(request: IdempotentRequest): Promise<BeginResult> };

const KNOWN = ["ttlMs", "required"];
const CLAIM_TIMEOUT_MS = 5000;
const CLAIM_BYTES_MAX = 8 * MIB;
const CLOSE_MS = 2000;
/** Most handlers have responded by then. */
const IN_PROGRESS_WAIT_MAX_MS = 2000;
const REPLAYED = { "idempotent-replayed": "true" };
// A quoted RFC 8941 string, or the same characters without quotes: 1 to 255 of visible ASCII.
const QUOTED = /^"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\]){1,255})"$/;
const BARE = /^[\x21\x23-\x7e]{1,255}$/;

export class Idempotency {
  readonly #runtime: Runtime;
  readonly #storing: Storing = { pending: new Set(), isClosed: false };

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Validates a route's options once, when it is created. */
  route(handler: unknown, options: IdempotentOptions = {}): IdempotentRoute {
    need(typeof handler === "function", "idempotent takes the handler as its second argument");
    const own = validateOptions(options);
    return { begin: (request) => this.#begin(request, own) };
  }

  async #begin(request: IdempotentRequest, options: IdempotentOptions): Promise<BeginResult> {
    const { context } = request;
    if (request.key === null || request.key === undefined) {
      return options.required ? respond(denialResponse("idempotency_key_required")) : { kind: "skip" };
    }
    const key = parseIdempotencyKey(request.key);
    if (key === null) return respond(denialResponse("idempotency_key_invalid"));
    // Without a tenant, one customer's key could replay another customer's response.
    if (!context?.tenantId) {
      if (!context) this.#runtime.log("error", "idempotent() is used on a route without protect() before it", {});
      return respond(denialResponse("idempotency_unavailable"));
    }
    if (typeof request.body === "object" && "used" in request.body) {
      const { method } = request;
      const path = redactCredentials(request.path);
      this.#runtime.log("error", "idempotent() cannot see the body of a request", { method, path });
      return respond(denialResponse("idempotency_unavailable"));
    }
    const print = fingerprint(request, request.body);
    if (print === null) return respond(denialResponse("body_invalid"));
    const scope = { scope_hash: this.#scopeHash(context, request, key), env: context.env };
    const ttl = options.ttlMs === undefined ? {} : { ttl_ms: options.ttlMs };
    try {
      const { json } = await this.#runtime.client.call({
        method: "POST",
        path: "/v1/idempotency/claim",
        body: JSON.stringify({ ...scope, fingerprint: print, ...ttl }),
        timeoutMs: CLAIM_TIMEOUT_MS,
        maxBytes: CLAIM_BYTES_MAX,
      });
      return this.#interpret(json as Record<string, unknown> | null, { ...scope, ...ttl });
    } catch (error) {
      this.#runtime.log("warn", "the idempotency claim failed", {
        why: error instanceof Error ? error.message : "unknown",
      });
      return respond(denialResponse("idempotency_unavailable"));
    }
  }

  /** Waits briefly for responses that are being stored. */
  async close(): Promise<void> {
    this.#storing.isClosed = true;
    await atMost(this.#runtime.ports, CLOSE_MS, Promise.all(this.#storing.pending));
  }

  #interpret(
    json: Record<string, unknown> | null,
    scope: { scope_hash: string; env: string; ttl_ms?: number },
  ): BeginResult {
    const { state, lock_token, lock_ms, max_body_bytes, retry_after_ms, response } = json ?? {};
    if (state === "execute" && typeof lock_token === "string" && lock_token.length >= 8) {
      const lockMs = isCount(lock_ms) && lock_ms >= 100 ? lock_ms : LOCK_MS;
      const maxBodyBytes = isCount(max_body_bytes) ? max_body_bytes : 0;
      const grant = { ...scope, lock_token, lockMs, maxBodyBytes };
      return { kind: "run", claim: new Claim(this.#runtime, grant, this.#storing) };
    }
    if (state === "in_progress") {
      // The control plane names the end of the lease, which matters only if the process that holds it has crashed.
      const wait = isCount(retry_after_ms) ? Math.min(retry_after_ms, IN_PROGRESS_WAIT_MAX_MS) : 0;
      return respond(denialResponse("idempotency_in_progress", { retryAfterSeconds: wait / 1000 }));
    }
    if (state === "mismatch") return respond(denialResponse("idempotency_mismatch"));
    if (state === "replay") return respond(toReplay(response));
    throw new Error("the claim response is malformed");
  }

  #scopeHash(context: Context, { method, path }: IdempotentRequest, key: string): string {
    return sha256HexParts([
      canonicalize([this.#runtime.settings.projectId, context.env, context.tenantId, method, path, key]),
    ]);
  }
}

function validateOptions(options: IdempotentOptions): IdempotentOptions {
  need(typeof options === "object" && options !== null, "idempotent takes an object of options");
  const { ttlMs, required } = options;
  for (const name of Object.keys(options)) need(KNOWN.includes(name), `idempotent has no option "${name}"`);
  const whole = ttlMs === undefined || (Number.isSafeInteger(ttlMs) && ttlMs >= TTL_MS_MIN && ttlMs <= TTL_MS_MAX);
  need(whole, `ttlMs must be ${TTL_MS_MIN} to ${TTL_MS_MAX}`);
  need(required === undefined || typeof required === "boolean", "required must be true or false");
  return options;
}

/** The key without quotes; null when malformed. */
function parseIdempotencyKey(header: string): string | null {
  const quoted = QUOTED.exec(header)?.[1];
  if (quoted !== undefined) return quoted.replace(/\\(["\\])/g, "$1");
  return BARE.test(header) ? header : null;
}

type ReadBody = Exclude<IdempotentRequest["body"], { used: true }>;

/** Covers what must not differ between a request and its retry: method, path, sorted query and body. */
function fingerprint({ method, path, query }: IdempotentRequest, body: ReadBody): string | null {
  const sorted = query.split("&").filter(Boolean).toSorted().join("&");
  const bytes = typeof body === "object" && "parsed" in body ? canonicalOrNull(body.parsed ?? null) : body;
  return bytes === null ? null : sha256HexParts([`${method}\n${path}\n${sorted}\n`, bytes]);
}

/** Null for a value without canonical JSON: a client may send half of a surrogate pair. */
function canonicalOrNull(value: unknown): string | null {
  try {
    return canonicalize(value as Json);
  } catch {
    return null;
  }
}

function toReplay(response: unknown): PlainResponse {
  const { status, headers, body, body_stored } = (response ?? {}) as Record<string, unknown>;
  if (body_stored !== true || typeof body !== "string")
    return denialResponse("idempotency_not_kept", { headers: REPLAYED });
  if (!isCount(status) || status < 200 || status > 599) throw new Error("the stored response has no status");
  return { status, headers: { ...replayHeaders(headers), ...REPLAYED }, body: decodeBase64(body) };
}

function respond(response: PlainResponse): BeginResult {
  return { kind: "respond", response };
}
