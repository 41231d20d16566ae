// The audit log, its verification, and its signed checkpoint.
import { z } from "zod";
import { listAudit, verifyChain } from "../../domain/audit/audit.ts";
import { latestCheckpoint } from "../../domain/audit/checkpoints.ts";
import { endpoint } from "../../http/endpoint.ts";
import { HttpResponse } from "../../http/response.ts";
import { listOf, Timestamp, Uuid } from "../schemas.ts";

const AuditLog = z.strictObject({
  object: z.literal("audit_log"),
  id: Uuid,
  seq: z.int().min(1),
  occurred_at: Timestamp,
  actor_type: z.enum(["user", "secret_key", "embed_token", "bootstrap", "scanner", "system"]),
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

export const auditLogsList = endpoint("GET /v1/audit_logs", {
  summary: "List the workspace's audit log, oldest first.",
  access: "audit.read",
  query: z.strictObject({
    after_seq: z.int().min(0).optional().describe("only rows after this sequence number"),
    limit: z.int().min(1).max(200).default(50).describe("rows on a page"),
  }),
  output: listOf(AuditLog),
  handle: (ctx, { query }) => listAudit(ctx, query),
});

const CHAIN_RUNS = { name: "audit_chain", limit: 6, windowMs: 60_000 };

export const auditLogsChain = endpoint("GET /v1/audit_logs/chain", {
  summary: "Recompute every hash of the audit log and report the first position that fails.",
  access: "audit.chain",
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
  }),
  failures: ["rate_limited"],
  handle: ({ services, actor }) => {
    services.throttles.take(CHAIN_RUNS, actor.workspace_id);
    return verifyChain(services, actor.workspace_id);
  },
});

export const auditLogsCheckpoint = endpoint("GET /v1/audit_logs/checkpoint", {
  summary: "The latest signed checkpoint of the audit log, as a C2SP signed note.",
  access: "audit.chain",
  output: z.string(),
  produces: "text/plain",
  handle: async ({ services, actor }) => {
    const { note, vkey } = await latestCheckpoint(services, actor.workspace_id);
    return new HttpResponse(200, note, { "content-type": "text/plain; charset=utf-8", "audit-vkey": vkey });
  },
});
