// Telemetry ingest. The domain validates the body after it has charged the workspace's budget; the schema only
// documents.
import { z } from "zod";
import { ingest } from "../../domain/ingest/ingest.ts";
import { TAG_NAME, TAG_VALUE } from "../../domain/series/batch.ts";
import { endpoint } from "../../http/endpoint.ts";
import { jsonResponse } from "../../http/response.ts";
import { Env, NodeId, text, Timestamp, Uuid } from "../schemas.ts";
import { rateLimitHeaders } from "../../kernel/ratelimit/headers.ts";
import { MIB } from "../../kernel/sizes.ts";

const INGEST_BODY_MAX = 5 * MIB;
const SampleRate = z.number().min(0.0001).max(1);

const Event = z.looseObject({
  ts: Timestamp,
  project_id: Uuid,
  env: Env,
  tenant_id: Uuid.nullable().optional(),
  key_id: Uuid.nullable().optional(),
  display_prefix: z.string().nullable().optional(),
  method: text(1, 16),
  path: text(0, 2048),
  route: text(0, 512).nullable(),
  status: z.int().min(100).max(599),
  duration_ms: z.number().min(0),
  degraded: z.boolean(),
  denial_reason: text(0, 64).nullable().optional(),
  request_id: text(1, 128),
  sample_rate: SampleRate.optional(),
  // A malformed value of one of these is ignored and refuses nothing.
  cost: z.int().min(0).max(1_000).optional().describe("units that it was charged; 1 by default"),
  tags: z.record(z.string().regex(TAG_NAME), z.string().regex(TAG_VALUE)).optional().describe("up to 4"),
  network: z.string().nullable().optional().describe("the client's network: /24 of IPv4 or /48 of IPv6"),
  user_agent: text(1, 32).optional().describe("product name of the client"),
  would_deny: z.literal("ip_not_allowed").optional().describe("admitted, but outside of a list in report mode"),
});

export const ingestBatch = endpoint("POST /v1/ingest/batch", {
  summary:
    "Report requests that a node served. Charged to the workspace's events per minute, then validated and counted.",
  access: "machine.use",
  hot: "lanes/ingest",
  bodyMax: INGEST_BODY_MAX,
  structureMax: 300_000, // 5,000 events with every field have 235,000
  inPieces: true,
  rawBody: true,
  stores: true,
  body: z.looseObject({
    object: z.literal("ingest_batch"),
    protocol_version: z.literal(1),
    node_id: NodeId,
    sdk: z.looseObject({ name: text(1, 64), version: text(1, 64) }),
    events: z.array(Event).max(5_000),
    events_dropped: z.int().min(0).optional(),
    sample_rate: SampleRate.optional(),
    key_first_daily: z.boolean().optional().describe("every key's first request of a UTC day is reported"),
  }),
  output: z.strictObject({
    object: z.literal("ingest_receipt"),
    accepted: z.int(),
    events_dropped_reported: z.int(),
  }),
  status: 202,
  failures: ["rate_limited", "test_cannot_live"],
  handle: async (ctx, { raw }) => {
    const { receipt, rateLimit } = await ingest(ctx, raw);
    return jsonResponse(202, receipt, rateLimitHeaders([rateLimit]));
  },
});
