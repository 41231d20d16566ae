// Rate limits: checks, and leases of units that the SDK spends locally. Every decision is a 200.
import { z } from "zod";
import { checkLimits, leaseLimits, returnLease } from "../../domain/limits/ratelimit.ts";
import { endpoint } from "../../http/endpoint.ts";
import { withFastPath } from "../../http/fast/fast-path.ts";
import { Env, RateLimits, Uuid } from "../schemas.ts";
import { fastParseCheck, UNITS_MAX } from "./fast-check.ts";

const Subject = {
  project_id: Uuid,
  env: Env,
  key_id: Uuid.nullable().default(null),
  tenant_id: Uuid.nullable().default(null),
  limits: RateLimits.min(1, { error: "must have at least 1 rule" }),
};

const Store = z.enum(["memory", "redis"]);
const Policies = z.array(
  z.strictObject({
    id: z.string(),
    limit: z.int(),
    window_ms: z.int(),
    remaining: z.int().min(0),
    reset_ms: z.int().min(0),
  }),
);

export const ratelimitCheck = endpoint("POST /v1/ratelimit/check", {
  summary:
    "Check a request against its rate limits and charge all of them or none. A denial is a 200 with allowed false.",
  access: "machine.use",
  hot: "lanes/check",
  body: withFastPath(z.strictObject({ ...Subject, cost: z.int().min(0).max(UNITS_MAX).default(1) }), fastParseCheck),
  output: z.strictObject({
    object: z.literal("ratelimit_result"),
    allowed: z.boolean(),
    limited_policy: z.string().nullable(),
    retry_after_seconds: z.int().min(1).nullable(),
    store: Store,
    policies: Policies,
  }),
  failures: ["test_cannot_live"],
  handle: (ctx, { body }) => checkLimits(ctx, body),
});

export const ratelimitLease = endpoint("POST /v1/ratelimit/lease", {
  summary: "Charge up to `want` units at once, to be spent by the caller before the lease expires.",
  access: "machine.use",
  hot: "lanes/lease",
  body: z.strictObject({ ...Subject, want: z.int().min(1).max(UNITS_MAX) }),
  output: z.strictObject({
    object: z.literal("ratelimit_lease"),
    granted: z.int().min(0),
    lease_id: z.string().nullable(),
    expires_in_ms: z.int().min(0),
    store: Store,
    policies: Policies,
  }),
  failures: ["test_cannot_live"],
  handle: (ctx, { body }) => leaseLimits(ctx, body),
});

export const ratelimitReturn = endpoint("POST /v1/ratelimit/return", {
  summary: "Return the unspent units of a lease before it expires. A repeated or late return has no effect.",
  access: "machine.use",
  hot: "lanes/return",
  body: z.strictObject({ lease_id: Uuid, unused: z.int().min(0).max(UNITS_MAX) }),
  output: z.strictObject({ object: z.literal("ratelimit_return"), returned: z.int().min(0) }),
  handle: (ctx, { body }) => returnLease(ctx, body),
});
