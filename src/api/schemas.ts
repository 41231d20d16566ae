// Wire schemas shared by several planes. They contain no transforms, because the same schema validates and documents.
import { z } from "zod";
import type { Json } from "../kernel/audit/canonical.ts";
import { isEmail } from "../kernel/emails.ts";
import { ENVS } from "../kernel/credentials.ts";
import { parseUuid } from "../kernel/ids.ts";
import { SLUG_PATTERN } from "../kernel/slugs.ts";
import { CIDRS_MAX, cidrProblems, IP_MODES } from "../kernel/network/cidr.ts";
import { LIMIT_MAX, RATE_LIMITS_MAX, RULE_ID, WINDOW_MS_MAX, WINDOW_MS_MIN } from "../kernel/ratelimit/rule.ts";
import { AMOUNT_MAX, isDayOf, OVERAGES, QUOTAS_MAX, REFILLS } from "../kernel/quotas/quota.ts";
import { isTimeZone } from "../kernel/time-zones.ts";
import { parseTimestamp } from "../kernel/timestamps.ts";
import { NODE_ID } from "../kernel/usage/event-bounds.ts";

/** Text measured in code points, as NIST and JSON Schema do. */
export function text(min: number, max: number) {
  return z
    .string()
    .refine(
      (value) => {
        // Code units bound code points from above and below, so most texts need no counting.
        if (value.length < min || value.length > max * 2) return false;
        const length = value.length <= max && value.length >= min * 2 ? value.length : [...value].length;
        return length >= min && length <= max;
      },
      { error: `must have ${min} to ${max} characters` },
    )
    .meta({ minLength: min, maxLength: max });
}

const pattern = (source: string, error: string) => z.string().regex(new RegExp(source), { error });

export const Uuid = z
  .string()
  .toLowerCase()
  .refine((value) => parseUuid(value) !== null, { error: "must be a UUID" })
  .meta({ format: "uuid" });
const UUID = "[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";
export const Uuids = pattern(`^${UUID}(,${UUID}){0,199}$`, "must be up to 200 UUIDs, separated by commas");
/** A validated list of ids. */
export const toIds = (uuids: string | undefined): string[] | undefined => uuids?.toLowerCase().split(",");
export const Env = z.enum(ENVS);
export const NAME_MAX = 200;
export const Name = text(1, NAME_MAX);
export const Slug = pattern(
  SLUG_PATTERN,
  "must be 3 to 63 of a-z, 0-9 and -, starting and ending with a letter or digit",
);
export const Timestamp = z
  .string()
  .refine((value) => parseTimestamp(value) !== null, {
    error: "must be an ISO 8601 date-time such as 2027-01-31T00:00:00Z",
  })
  .meta({ format: "date-time" });

/** A validated timestamp as milliseconds. */
export function toMs(value: string): number;
export function toMs(value: string | null | undefined): number | null | undefined;
export function toMs(value: string | null | undefined): number | null | undefined {
  return typeof value === "string" ? parseTimestamp(value) : value;
}

/** A list without repetitions. */
export function distinct<T extends z.ZodType>(item: T, min: number, max: number) {
  return z
    .array(item)
    .min(min, { error: min === 1 ? "must not be empty" : `must have at least ${min} entries` })
    .max(max, { error: `must have at most ${max} entries` })
    .refine((list) => new Set(list).size === list.length, { error: "must not repeat an entry" })
    .meta({ uniqueItems: true });
}

export const Email = z
  .string()
  .refine(isEmail, { error: "must be a valid email address" })
  .meta({ format: "email", maxLength: 320 });

export const SCOPE_MAX = 200;
export const SCOPES_MAX = 64;
export const Scopes = z.array(text(1, SCOPE_MAX)).max(SCOPES_MAX, { error: `must have at most ${SCOPES_MAX} entries` });

const RateLimit = z.strictObject({
  id: pattern(RULE_ID.source, "must be 1 to 64 of a-z, 0-9, . _ -, starting with a letter or digit").describe(
    "name of the rule, also in the RateLimit headers",
  ),
  limit: z.int().min(1).max(LIMIT_MAX).describe("units per window"),
  window_ms: z.int().min(WINDOW_MS_MIN).max(WINDOW_MS_MAX).describe("length of the window in milliseconds"),
  algorithm: z
    .enum(["sliding", "fixed"])
    .describe(
      "sliding: no window of this length admits more, whenever it begins; fixed: windows begin at multiples of their length",
    ),
  scope: z.enum(["key", "tenant"]).describe("one counter for each key, or one for all keys of a tenant"),
});

export const RateLimits = z
  .array(RateLimit)
  .max(RATE_LIMITS_MAX, { error: `must have at most ${RATE_LIMITS_MAX} rules` })
  .refine((rules) => new Set(rules.map(({ id }) => id)).size === rules.length, {
    error: "must not repeat an id",
  });

/** Returned in canonical form. */
const AllowedCidrs = z
  .array(z.string())
  .max(CIDRS_MAX, { error: `must have at most ${CIDRS_MAX} entries` })
  .superRefine((list, check) => {
    if (list.length > CIDRS_MAX) return;
    for (const { index, message } of cidrProblems(list)) check.addIssue({ code: "custom", path: [index], message });
  })
  .meta({ uniqueItems: true });
export const IpModeName = z
  .enum(IP_MODES)
  .describe("what to do with requests from addresses outside allowed_cidrs: enforce (refuse) or report");
export const KeyCidrs = AllowedCidrs.nullable().describe(
  "addresses and networks that the key may be used from; null = those of its tenant, [] = any",
);
export const TenantCidrs = AllowedCidrs.describe(
  "addresses and networks that keys without a list of their own may be used from; [] = any",
);

const Quota = z
  .strictObject({
    id: pattern(RULE_ID.source, "must be 1 to 64 of a-z, 0-9, . _ -, starting with a letter or digit").describe(
      "name of the quota",
    ),
    amount: z.int().min(0).max(AMOUNT_MAX).describe("units per period"),
    refill: z.enum(REFILLS).describe("when the amount becomes available again; none: never"),
    day: z
      .int()
      .min(1, { abort: true }) // then the refill does not matter
      .max(31, { abort: true })
      .nullable()
      .optional()
      .describe("first day of a week (1 = Monday) or month; 1 by default, null for other refills"),
    time_zone: z
      .string()
      .max(64)
      .refine(isTimeZone, { error: "must be an IANA time zone such as Europe/Berlin" })
      .default("UTC")
      .describe("IANA time zone in which periods begin"),
    overage: z
      .enum(OVERAGES)
      .default("deny")
      .describe("deny: refuse requests beyond the amount; report: admit and report them"),
  })
  .superRefine(({ refill, day }, check) => {
    const message =
      refill === "weekly" ? "must be 1 to 7 with refill weekly" : `cannot be combined with refill ${refill}`;
    if (!isDayOf(refill, day)) check.addIssue({ code: "custom", path: ["day"], message });
  });

export const Quotas = z
  .array(Quota)
  .max(QUOTAS_MAX, { error: `must have at most ${QUOTAS_MAX} quotas` })
  .refine((quotas) => new Set(quotas.map(({ id }) => id)).size === quotas.length, {
    error: "must not repeat an id",
  });

export const META_BYTES = 16 * 1024;
const META_DEPTH = 8;
const META_KEYS = 100;

type Size = { keys: number; depth: number };

/** Stops above the maximum of keys, and does not look at their values: that would block the event loop. */
function measure(value: unknown, depth: number, size: Size): void {
  if (typeof value !== "object" || value === null) return;
  size.depth = Math.max(size.depth, depth);
  if (!Array.isArray(value)) size.keys += Object.keys(value).length;
  if (size.keys > META_KEYS) return;
  for (const item of Object.values(value)) measure(item, depth + 1, size);
}

function keyTooLong(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const named = !Array.isArray(value) && Object.keys(value).some((key) => key === "" || [...key].length > 200);
  return named || Object.values(value).some(keyTooLong);
}

/** The vendor's own data, stored verbatim within bounds. Not z.record, which drops a `__proto__` field. */
export const Meta = z
  .unknown()
  .superRefine((value, check) => {
    const report = (message: string) => check.addIssue({ code: "custom", message });
    if (typeof value !== "object" || value === null || Array.isArray(value)) return report("must be an object");
    const size: Size = { keys: 0, depth: 1 };
    measure(value, 1, size);
    if (size.depth > META_DEPTH) report(`must be at most ${META_DEPTH} levels deep`);
    if (size.keys > META_KEYS) return report(`must have at most ${META_KEYS} keys in all`);
    if (keyTooLong(value)) report("must have keys of 1 to 200 characters");
    if (Buffer.byteLength(JSON.stringify(value)) > META_BYTES) report("must be at most 16 KiB as JSON");
  })
  .meta({
    type: "object",
    description: "your own data, as a JSON object: at most 16 KiB, 8 levels, 100 keys",
  }) as unknown as z.ZodType<{
  [key: string]: Json;
}>;

export const Flag = z.enum(["true", "false"]);
export const Reason = text(1, 500).describe("reason, stored with the change and in the audit log");
export const OverlapHours = z.number().min(0).max(168).describe("how many hours the old key keeps working");
export const NodeId = pattern(NODE_ID.source, "must be 1 to 128 of A-Z, a-z, 0-9, . _ : -");
export const Sha256Hex = z
  .string()
  .toLowerCase()
  .regex(/^[0-9a-f]{64}$/, { error: "must be 64 hex digits" });
export const EmptyBody = z.strictObject({});
export const ById = z.strictObject({ id: Uuid.describe("id of the record") });
export const After = Uuid.optional().describe("last id of the previous page");
/** Lists that are paged by a cursor. */
export const PAGE = 50;
export const Limit = z.int().min(1).max(200).describe(`rows on a page; ${PAGE} by default`);
export const Cursor = text(1, 512).describe("next_cursor of the previous page");
/** Lists that are paged by their last id. */
export const AfterQuery = z.strictObject({
  after: After,
  limit: z.int().min(1).max(200).optional().describe("rows on a page; default: as many as fit in a response"),
});

/** Its form is checked where it is claimed, so that each refusal says why. */
export const KeyPrefix = z.string().min(1).max(32).describe("how API keys begin: 2 to 9 lower-case letters and digits");

/** Query of endpoints whose changes are propagated to nodes. */
export const Wait = z.strictObject({
  wait: Flag.default("false").describe("respond once every live node has acknowledged the change"),
});

/** `{object: 'list', data: [...]}`, with has_more only if there are more rows. */
export function listOf<S extends z.ZodType>(item: S) {
  return z.strictObject({ object: z.literal("list"), data: z.array(item), has_more: z.literal(true).optional() });
}

/** A UTC day, or the first day of a month. */
export const Day = z.string().regex(/^\d{4}-\d\d-\d\d$/);

export const Usage = z.strictObject({
  object: z.literal("usage"),
  key_id: Uuid,
  days: z.int(),
  data: z.array(z.strictObject({ day: Day, requests: z.int(), errors: z.int() })),
});

export const UsageDays = z.strictObject({ days: z.int().min(1).max(90).default(30).describe("UTC days, up to today") });
