// Idempotency for the vendor's API: claim, complete, release, heartbeat. Every outcome is a 200.
import { z } from "zod";
import { claim, complete, heartbeat, release } from "../../domain/idempotency/claims.ts";
import { endpoint } from "../../http/endpoint.ts";
import { TTL_MS_MAX, TTL_MS_MIN } from "../../kernel/idempotency.ts";
import { MIB } from "../../kernel/sizes.ts";
import { Env, Sha256Hex, text } from "../schemas.ts";

const COMPLETE_BODY_MAX = 8 * MIB;
const BASE64_MAX = 6_291_456;
const HEADERS_MAX = 64;

const Ttl = z
  .int()
  .min(TTL_MS_MIN)
  .max(TTL_MS_MAX)
  .describe("how long the claim and its response are stored, in milliseconds; a day by default");
const LockToken = text(8, 64).describe("lock_token of the claim");
const Scoped = {
  scope_hash: Sha256Hex.describe(
    "SHA-256 that identifies the operation, such as of project, tenant, method, path and idempotency key",
  ),
  env: Env.describe("environment of the key that the request came with"),
};

/** RFC 4648, section 4, in canonical form: decoding and encoding gives the same text. */
function isBase64(value: string): boolean {
  return value.length % 4 === 0 && Buffer.from(value, "base64").toString("base64") === value;
}

const Base64 = z
  .string()
  .max(BASE64_MAX, { error: `must have at most ${BASE64_MAX} characters`, abort: true })
  .refine(isBase64, { error: "must be padded base64" })
  .meta({ contentEncoding: "base64" });

const HeaderMap = z
  .record(
    z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/, { error: "must have header names of 1 to 128 characters" }),
    z
      .string()
      .max(4096)
      .regex(/^[^\r\n]*$/, { error: "must be one line" }),
  )
  .refine((headers) => Object.keys(headers).length <= HEADERS_MAX, {
    error: `must have at most ${HEADERS_MAX} headers`,
  });

export const idempotencyClaim = endpoint("POST /v1/idempotency/claim", {
  summary: "Claim a request. Exactly one claimant gets state execute; the others get in_progress, replay or mismatch.",
  access: "machine.use",
  hot: "lanes/claim",
  stores: true,
  body: z.strictObject({
    ...Scoped,
    fingerprint: Sha256Hex.describe("SHA-256 of the request; another one under the same scope_hash is a mismatch"),
    ttl_ms: Ttl.optional(),
  }),
  output: z.strictObject({
    object: z.literal("idempotency_claim"),
    state: z.enum(["execute", "replay", "in_progress", "mismatch"]),
    lock_token: z.string().nullable(),
    lock_ms: z.int(),
    stolen: z.boolean(),
    retry_after_ms: z.int().nullable(),
    response: z
      .strictObject({
        status: z.int(),
        headers: z.record(z.string(), z.string()),
        body: z.string().nullable(),
        body_stored: z.boolean(),
      })
      .nullable(),
    max_body_bytes: z.int(),
  }),
  failures: ["test_cannot_live", "share_spent"],
  handle: (ctx, { body }) => claim(ctx, body),
});

const Outcome = z.enum(["ok", "lock_lost", "completed", "not_found"]);

export const idempotencyComplete = endpoint("POST /v1/idempotency/complete", {
  summary: "Store the response of a claimed request, so that retries can replay it.",
  access: "machine.use",
  hot: "lanes/complete",
  bodyMax: COMPLETE_BODY_MAX,
  structureMax: 1_000,
  body: z.strictObject({
    ...Scoped,
    lock_token: LockToken,
    status: z.int().min(100).max(599).describe("status of the response"),
    headers: HeaderMap.default({}).describe("headers to replay"),
    body: Base64.nullable().default(null).describe("body of the response, in base64; null if there is none"),
    ttl_ms: Ttl.optional(),
  }),
  output: z.strictObject({ object: z.literal("idempotency_record"), outcome: Outcome, body_stored: z.boolean() }),
  failures: ["test_cannot_live"],
  handle: (ctx, { body }) => complete(ctx, body),
});

const Claimed = z.strictObject({ ...Scoped, lock_token: LockToken });
const ClaimOutcome = z.strictObject({ object: z.literal("idempotency_record"), outcome: Outcome });

export const idempotencyRelease = endpoint("POST /v1/idempotency/release", {
  summary: "Release a claim after a transient failure, so that a retry executes.",
  access: "machine.use",
  hot: "lanes/release",
  body: Claimed,
  output: ClaimOutcome,
  failures: ["test_cannot_live"],
  handle: (ctx, { body }) => release(ctx, body),
});

export const idempotencyHeartbeat = endpoint("POST /v1/idempotency/heartbeat", {
  summary: "Extend the lock of a slow request.",
  access: "machine.use",
  hot: "lanes/heartbeat",
  body: Claimed,
  output: ClaimOutcome,
  failures: ["test_cannot_live"],
  handle: (ctx, { body }) => heartbeat(ctx, body),
});
