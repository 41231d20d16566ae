// One action on many keys.
import { z } from "zod";
import { bulkKeys } from "../../domain/keys/bulk.ts";
import { BULK_ACTIONS, BULK_STATES } from "../../kernel/bulk-actions.ts";
import { endpoint } from "../../http/endpoint.ts";
import { Cursor, distinct, Env, OverlapHours, Reason, SCOPE_MAX, text, Timestamp, toMs, Uuid } from "../schemas.ts";

const ONLY_NARROWS = ["env", "state"];

const Filter = z
  .strictObject({
    ids: distinct(Uuid, 1, 500).optional().describe("these keys"),
    project_id: Uuid.optional().describe("keys of this project"),
    tenant_id: z
      .union([Uuid, distinct(Uuid, 1, 50)], { error: "must be a UUID, or a list of 1 to 50" })
      .optional()
      .describe("keys of this tenant, or of these"),
    env: Env.optional().describe("keys of this environment"),
    scope: text(1, SCOPE_MAX).optional().describe("keys with this scope"),
    prefix: z
      .string()
      .regex(/^[a-z][a-z0-9]{1,8}$/, { error: "must be a key prefix" })
      .optional()
      .describe("keys created with this prefix"),
    state: z.enum(BULK_STATES).optional().describe("keys in this state"),
    created_before: Timestamp.optional().describe("keys created before this"),
    created_after: Timestamp.optional().describe("keys created after this"),
    unused_since: Timestamp.optional().describe("keys created before this and not used since"),
    all: z.literal(true).optional().describe("every key; only with env and state"),
  })
  .superRefine((filter, check) => {
    const given = Object.keys(filter).filter((name) => !ONLY_NARROWS.includes(name));
    if (given.length === 0)
      check.addIssue({ code: "custom", message: "needs something besides env and state, or all" });
    if (filter.all && given.length > 1)
      check.addIssue({ code: "custom", message: "all may be combined with env and state only" });
  });

/** Fields that only some actions take. */
const TAKEN_BY = { reason: ["revoke", "disable"], overlap_hours: ["rotate"], grace_days: ["cap_expiry"] } as const;

const Bulk = z
  .strictObject({
    action: z.enum(BULK_ACTIONS).describe("what to do with each key"),
    filter: Filter.describe("keys must match all given fields"),
    dry_run: z.boolean().default(false).describe("show the keys and change nothing"),
    limit: z.int().min(1).max(500).default(200).describe("maximum number of keys that one call changes"),
    cursor: Cursor.optional(),
    bulk_id: Uuid.optional().describe(
      "bulk_id of the run's first response; keys created after it was made do not match",
    ),
    expect: z.int().min(0).optional().describe("refuse to change anything if more keys match; without a cursor"),
    reason: Reason.optional().describe("revoke and disable only"),
    overlap_hours: OverlapHours.optional().describe("rotate only; 24 by default"),
    grace_days: z
      .int()
      .min(1)
      .max(365)
      .optional()
      .describe("cap_expiry only: days that every key keeps working at least; 30 by default"),
  })
  .superRefine((body, check) => {
    for (const [field, actions] of Object.entries(TAKEN_BY) as [keyof typeof TAKEN_BY, readonly string[]][])
      if (body[field] !== undefined && !actions.includes(body.action))
        check.addIssue({ code: "custom", path: [field], message: `is not a field of ${body.action}` });
  });

export const keysBulk = endpoint("POST /v1/bulk/keys", {
  summary:
    "Revoke, disable, enable or rotate many API keys, or cap their expiry, a page at a time. Each call is one transaction.",
  access: "keys.write",
  body: Bulk,
  output: z.strictObject({
    object: z.literal("bulk_result"),
    bulk_id: Uuid,
    action: z.enum(BULK_ACTIONS),
    dry_run: z.boolean(),
    matched: z.int().nullable().describe("total number of matching keys; null with a cursor"),
    changed: z.int().describe("keys changed by this call"),
    data: z.array(
      z.strictObject({
        id: Uuid,
        project_id: Uuid,
        tenant_id: Uuid,
        env: Env,
        display_prefix: z.string(),
        name: z.string().nullable(),
        successor_id: Uuid.optional(),
        key: z.string().optional().describe("the successor; shown only in this response"),
      }),
    ),
    next_cursor: z.string().nullable().describe("null at the end; earlier pages may be short or empty"),
    versions: z.array(z.strictObject({ project_id: Uuid, version: z.int() })).describe("for GET /v1/propagation"),
  }),
  idempotent: true,
  failures: ["test_cannot_live", "bulk_unexpected", "older_process", "unavailable", "share_full"],
  emits: ["api_key.revoked", "api_key.disabled", "api_key.enabled", "api_key.rotated", "api_key.updated"],
  stores: false, // judged by the action
  handle: (ctx, { body: { filter, overlap_hours = 24, grace_days = 30, ...bulk } }) => {
    const { created_before, created_after, unused_since, ...rest } = filter;
    const times = { created_before, created_after, unused_since };
    const given = Object.entries(times).flatMap(([name, value]) => (value === undefined ? [] : [[name, toMs(value)]]));
    return bulkKeys(ctx, {
      ...bulk,
      overlap_hours,
      grace_days,
      filter: { ...rest, ...(Object.fromEntries(given) as object) },
    });
  },
});
