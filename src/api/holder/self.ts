// The holder plane: a customer's own API key, as the bearer, looks at itself, rotates itself and revokes itself.
import { z } from "zod";
import { revokeSelf, rotateSelf, showSelf } from "../../domain/keys/self.ts";
import { endpoint } from "../../http/endpoint.ts";
import { HOUR_MS } from "../../kernel/durations.ts";
import { Env, Flag, OverlapHours, RateLimits, Reason, Scopes, Timestamp, Uuid } from "../schemas.ts";
import { RotatedApiKey } from "../vendor/schemas.ts";

const REFUSED = ["expired_key", "tenant_suspended", "key_disabled", "ip_not_allowed"] as const;

export const selfShow = endpoint("GET /v1/self", {
  summary:
    "Show the API key that is sent as the credential: 200 works, 401 does not, 403 exists but does not work here.",
  access: "holder.use",
  output: z.strictObject({
    object: z.literal("self"),
    key_id: Uuid,
    env: Env,
    display_prefix: z.string(),
    name: z.string().nullable(),
    scopes: Scopes,
    rate_limits: RateLimits,
    address_restricted: z.boolean(),
    expires_at: Timestamp.nullable(),
    quarantined_at: Timestamp.nullable(),
    rotated_from: Uuid.nullable(),
    replaced: z.boolean().describe("whether it has a working successor"),
    rotatable: z.boolean().describe("whether POST /v1/self/rotate would rotate it"),
    created_at: Timestamp,
  }),
  failures: REFUSED,
  handle: (ctx) => showSelf(ctx),
});

export const selfRevoke = endpoint("POST /v1/self/revoke", {
  summary: "Revoke the API key that is sent as the credential, whatever its state. Repeating it has no effect.",
  access: "holder.revoke",
  query: z.strictObject({ wait: Flag.default("false").describe("respond once every live node has the change") }),
  body: z.strictObject({ reason: Reason.optional() }),
  output: z.strictObject({
    object: z.literal("self"),
    key_id: Uuid,
    revoked_at: Timestamp.nullable(),
    revoked_reason: z.string().nullable(),
    propagation: z.strictObject({ complete: z.boolean(), waited_ms: z.int() }).optional(),
  }),
  emits: ["api_key.revoked"],
  handle: (ctx, { query, body }) => revokeSelf(ctx, body.reason, query.wait === "true"),
});

export const selfRotate = endpoint("POST /v1/self/rotate", {
  summary: "Rotate the API key that is sent as the credential, where its project allows that.",
  access: "holder.use",
  body: z.strictObject({ overlap_hours: OverlapHours.default(24) }),
  output: RotatedApiKey,
  perHolder: { name: "holder-rotate", limit: 5, windowMs: HOUR_MS },
  idempotent: true,
  failures: [...REFUSED, "holder_rotate_off", "quarantined_not_rotatable", "successor_still_valid"],
  emits: ["api_key.rotated"],
  handle: (ctx, { body }) => rotateSelf(ctx, body.overlap_hours),
});
