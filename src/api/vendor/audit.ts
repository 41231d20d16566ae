// The audit log, its verification, and its signed checkpoint.
import { Readable } from "node:stream";
import { z } from "zod";
import { listAudit } from "../../domain/audit/audit.ts";
import { verifyChain } from "../../domain/audit/chain-verification.ts";
import { exportAudit } from "../../domain/audit/export.ts";
import { searchAudit } from "../../domain/audit/search.ts";
import { latestCheckpoint } from "../../domain/audit/checkpoints.ts";
import { endpoint } from "../../http/endpoint.ts";
import { HttpResponse } from "../../http/response.ts";
import { Cursor, Flag, listOf, text, Timestamp, toMs, Uuid } from "../schemas.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";

const ActorType = z.enum(["user", "secret_key", "embed_token", "bootstrap", "scanner", "system", "api_key"]);

const AuditLog = z.strictObject({
  object: z.literal("audit_log"),
  id: Uuid,
  seq: z.int().min(1),
  occurred_at: Timestamp,
  actor_type: ActorType,
  actor_id: Uuid.nullable(),
  actor: z
    .strictObject({ id: Uuid, email: z.string(), email_verified: z.boolean(), name: z.string().nullable() })
    .nullable()
    .optional(),
  action: z.string(),
  target_type: z.string(),
  target_id: z.string().nullable(),
  payload: z.record(z.string(), z.unknown()),
  prev_hash: z.string(),
  hash: z.string(),
});

const AfterSeq = z.int().min(0).optional().describe("only rows after this sequence number");
const filters = {
  before_seq: z.int().min(1).optional().describe("only rows before this sequence number"),
  action: z
    .string()
    .regex(/^[a-z_]+\.([a-z_]+|\*)$/, { error: "must be an action such as api_key.created, or api_key.*" })
    .optional()
    .describe("only this action, or all actions of a noun: api_key.*"),
  actor_type: ActorType.optional().describe("only actions of this type of actor"),
  actor_id: Uuid.optional().describe("only actions of this actor"),
  target_type: text(1, 64).optional().describe("only actions on targets of this type"),
  target_id: text(1, 200).optional().describe("only actions on this target"),
  from: Timestamp.optional().describe("only rows from this time on"),
  to: Timestamp.optional().describe("only rows before this time"),
};
const Filters = z.strictObject({ after_seq: AfterSeq, ...filters });

const toFilters = ({ from, to, ...rest }: z.output<typeof Filters>) => ({
  ...rest,
  from: toMs(from) ?? undefined,
  to: toMs(to) ?? undefined,
});

export const auditLogsList = endpoint("GET /v1/audit_logs", {
  summary: "List the workspace's audit log, oldest or newest first. With an order or a filter it is paged by cursor.",
  access: "audit.read",
  query: z.strictObject({
    after_seq: AfterSeq,
    limit: z.int().min(1).max(200).default(50).describe("rows on a page"),
    order: z.enum(["asc", "desc"]).optional().describe("oldest or newest first; oldest by default"),
    cursor: Cursor.optional(),
    ...filters,
  }),
  output: listOf(AuditLog).extend({ next_cursor: z.string().nullable().optional() }),
  handle: (ctx, { query: { limit, order, cursor, ...query } }) => {
    const { after_seq, ...filtered } = query;
    const isPlain = order === undefined && cursor === undefined && Object.keys(filtered).length === 0;
    return isPlain
      ? listAudit(ctx, { after_seq, limit })
      : searchAudit(ctx, { ...toFilters(query), order, cursor, limit });
  },
});

export const auditLogsExport = endpoint("GET /v1/audit_logs/export", {
  summary:
    "Stream the audit log up to now as JSON Lines, oldest first. The header audit-to-seq has the last row's number.",
  access: "audit.read",
  query: Filters,
  output: z.string(),
  produces: ["application/x-ndjson"],
  failures: ["rate_limited"],
  handle: async (ctx, { query }) => {
    const { to_seq, pieces, cut, ended } = await exportAudit(ctx, toFilters(query));
    const headers = { "content-type": "application/x-ndjson", "audit-to-seq": String(to_seq) };
    const stream = Readable.from(pieces, { objectMode: false, signal: cut }).once("close", ended);
    return new HttpResponse(200, stream, headers);
  },
});

export const auditLogsChain = endpoint("GET /v1/audit_logs/chain", {
  summary: "Recompute every hash of the audit log and report the first position that fails.",
  access: "audit.chain",
  perOwner: { name: "audit_chain", limit: 6, windowMs: MINUTE_MS },
  query: z.strictObject({
    full: Flag.default("false").describe("for a long chain: start a verification of all of it, and respond at once"),
  }),
  output: z.strictObject({
    object: z.literal("audit_chain"),
    verified: z.boolean(),
    checked: z.int(),
    head_seq: z.int(),
    head_hash: z.string(),
    broken_seq: z.int().nullable(),
    reason: z
      .enum(["seq_gap", "prev_hash_mismatch", "hash_mismatch", "head_mismatch", "checkpoint_mismatch"])
      .nullable(),
    full: z
      .strictObject({ seq: z.int(), at: Timestamp, running: z.boolean(), checked: z.int() })
      .optional()
      .describe(
        "for a long chain: when it was last verified in full, up to which row, and the progress of a running verification",
      ),
  }),
  failures: ["rate_limited", "unavailable"],
  handle: async (ctx, { query }) => {
    const chain = await verifyChain(ctx.services, ctx.actor.workspace_id, { full: query.full === "true" });
    await ctx.requireStillValid?.(); // it may have taken long
    return chain;
  },
});

export const auditLogsCheckpoint = endpoint("GET /v1/audit_logs/checkpoint", {
  summary: "The latest signed checkpoint of the audit log, as a C2SP signed note.",
  access: "audit.chain",
  output: z.string(),
  produces: ["text/plain"],
  handle: async ({ services, actor }) => {
    const { note, vkey } = await latestCheckpoint(services, actor.workspace_id);
    return new HttpResponse(200, note, { "content-type": "text/plain; charset=utf-8", "audit-vkey": vkey });
  },
});
