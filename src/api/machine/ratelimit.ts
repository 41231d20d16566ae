// Rate limits: checks, and leases of units that the SDK spends locally. Every decision is a 200.
import { z } from "zod";
import { checkLimits, leaseLimits, returnLease } from "../../domain/limits/ratelimit.ts";
import { endpoint } from "../../http/endpoint.ts";
import { withFastPath } from "../../http/fast/fast-path.ts";
import { Env, RateLimits, Uuid } from "../schemas.ts";
import { OVERAGES } from "../../kernel/quotas/quota.ts";
import { fastParseCheck, OWED_MAX, UNITS_MAX } from "./fast-check.ts";

const Subject = {
  project_id: Uuid.describe("project of the key"),
  env: Env.describe("environment of the key"),
  key_id: Uuid.nullable().default(null).describe("the key; for rules with scope key and for its quotas"),
  tenant_id: Uuid.nullable()
    .default(null)
    .describe("tenant of the key; for rules with scope tenant and for its quotas"),
  limits: RateLimits.describe("at least 1 rule, unless quotas is true"),
  quotas: z.boolean().default(false).describe("also charge the quotas of the key and its tenant"),
  owed: z
    .int()
    .min(0)
    .max(OWED_MAX)
    .default(0)
    .describe("units admitted without a check; charged to quotas even if they are used up"),
  owed_id: Uuid.nullable()
    .default(null)
    .describe(
      "id of these owed units: if they are sent again under the same id, only units beyond the highest number so far are charged; remembered for 8 days",
    ),
};

type Limited = { limits: readonly unknown[]; quotas: boolean; owed: number };

/** Without quotas there must be a rule, and nothing can be owed. */
function requireSomething({ limits, quotas, owed }: Limited, check: z.RefinementCtx): void {
  if (quotas) return;
  if (limits.length === 0) check.addIssue({ code: "custom", path: ["limits"], message: "must have at least 1 rule" });
  if (owed > 0) check.addIssue({ code: "custom", path: ["owed"], message: "needs quotas" });
}

const chargesNoQuota = ({ quotas }: Limited): boolean => !quotas;

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

/** With `quotas: true` only. */
const QuotaStates = {
  limited_quota: z.string().nullable().optional(),
  quotas: z
    .array(
      z.strictObject({
        id: z.string(),
        scope: z.enum(["key", "tenant"]),
        amount: z.int(),
        remaining: z.int().min(0),
        reset_ms: z.int().min(0).nullable(),
        overage: z.enum(OVERAGES),
        exceeded: z.boolean(),
      }),
    )
    .optional(),
};

const CheckFields = z
  .strictObject({ ...Subject, cost: z.int().min(0).max(UNITS_MAX).default(1).describe("units to charge") })
  .superRefine(requireSomething);

export const ratelimitCheck = endpoint("POST /v1/ratelimit/check", {
  summary:
    "Check a request against its rate limits, and on request its quotas, and charge all of them or none. A denial is a 200 with allowed false.",
  access: "machine.use",
  hot: "lanes/check",
  body: withFastPath(CheckFields, fastParseCheck),
  output: z.strictObject({
    object: z.literal("ratelimit_result"),
    allowed: z.boolean(),
    limited_policy: z.string().nullable(),
    retry_after_seconds: z.int().min(1).nullable(),
    store: Store,
    policies: Policies,
    ...QuotaStates,
  }),
  failures: ["test_cannot_live", "project_not_found"],
  showsNothingStored: chargesNoQuota,
  handle: (ctx, { body }) => checkLimits(ctx, body),
});

export const ratelimitLease = endpoint("POST /v1/ratelimit/lease", {
  summary: "Charge up to `want` units at once, to be spent by the caller before the lease expires.",
  access: "machine.use",
  hot: "lanes/lease",
  body: z
    .strictObject({ ...Subject, want: z.int().min(1).max(UNITS_MAX).describe("units to take; fewer may be granted") })
    .superRefine(requireSomething),
  output: z.strictObject({
    object: z.literal("ratelimit_lease"),
    granted: z.int().min(0),
    lease_id: z.string().nullable(),
    expires_in_ms: z.int().min(0),
    store: Store,
    policies: Policies,
    ...QuotaStates,
  }),
  failures: ["test_cannot_live", "project_not_found"],
  showsNothingStored: chargesNoQuota,
  handle: (ctx, { body }) => leaseLimits(ctx, body),
});

export const ratelimitReturn = endpoint("POST /v1/ratelimit/return", {
  summary: "Return the unspent units of a lease before it expires. A repeated or late return has no effect.",
  access: "machine.use",
  hot: "lanes/return",
  body: z.strictObject({
    lease_id: Uuid.describe("lease_id of the lease"),
    unused: z.int().min(0).max(UNITS_MAX).describe("units that were not spent"),
  }),
  output: z.strictObject({ object: z.literal("ratelimit_return"), returned: z.int().min(0) }),
  handle: (ctx, { body }) => returnLease(ctx, body),
});
