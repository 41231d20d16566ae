// Telemetry ingest. The domain validates the body after it has charged the workspace's budget; the schema only
// documents.
import { z } from "zod";
import { EVENTS_MAX, ingest } from "../../domain/ingest/ingest.ts";
import { COST_MAX, SAMPLE_RATE_MIN, TAG_NAME, TAG_VALUE, TAGS_MAX, TEXT_MAX } from "../../kernel/usage/event-bounds.ts";
import { endpoint } from "../../http/endpoint.ts";
import { jsonResponse } from "../../http/response.ts";
import { Env, NodeId, text, Timestamp, Uuid } from "../schemas.ts";
import { rateLimitHeaders } from "../../kernel/ratelimit/headers.ts";
import { MIB } from "../../kernel/sizes.ts";

const INGEST_BODY_MAX = 5 * MIB;
const SampleRate = z.number().min(SAMPLE_RATE_MIN).max(1);

const Event = z.looseObject({
  ts: Timestamp.describe("when the request arrived"),
  project_id: Uuid.describe("project of the key"),
  env: Env.describe("environment of the key"),
  tenant_id: Uuid.nullable().optional().describe("tenant of the key; null if it is not known"),
  key_id: Uuid.nullable().optional().describe("the key; null if it is not known"),
  display_prefix: z.string().nullable().optional().describe("first characters of the key"),
  method: text(1, TEXT_MAX.method).describe("method of the request"),
  path: text(0, TEXT_MAX.path).describe("path of the request, without its query; not stored, may be empty"),
  route: text(0, TEXT_MAX.route).nullable().describe("pattern of the path, to group usage by; null if there is none"),
  status: z.int().min(100).max(599).describe("status of the response"),
  duration_ms: z.number().min(0).describe("time to the response, in milliseconds"),
  degraded: z.boolean().describe("whether it was decided with a stale policy, without a policy, or without counters"),
  denial_reason: text(0, TEXT_MAX.denial_reason)
    .nullable()
    .optional()
    .describe("code of the denial; null if the request was admitted"),
  request_id: text(1, TEXT_MAX.request_id).describe("unique for each request; a repeated one counts once in a batch"),
  sample_rate: SampleRate.optional().describe("sample_rate of this event, instead of the batch's"),
  // A malformed value of one of these is ignored and refuses nothing.
  cost: z.int().min(0).max(COST_MAX).optional().describe("units charged; 1 by default"),
  tags: z
    .record(z.string().regex(TAG_NAME), z.string().regex(TAG_VALUE))
    .optional()
    .describe(`tags to group usage by; up to ${TAGS_MAX}`),
  network: z.string().nullable().optional().describe("the client's network: /24 of IPv4 or /48 of IPv6"),
  user_agent: text(1, 32).optional().describe("product name of the client"),
  would_deny: z
    .literal("ip_not_allowed")
    .optional()
    .describe("admitted, but from an address outside an allow list in report mode"),
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
    object: z.literal("ingest_batch").describe("always ingest_batch"),
    protocol_version: z.literal(1).describe("always 1"),
    node_id: NodeId.describe("id of the node that reports, as in its polls"),
    sdk: z
      .looseObject({
        name: text(1, 64).describe("name of the library"),
        version: text(1, 64).describe("version of the library"),
      })
      .describe("the library that reports"),
    events: z.array(Event).max(EVENTS_MAX).describe("one for each request"),
    events_dropped: z.int().min(0).optional().describe("events lost since the last batch"),
    sample_rate: SampleRate.optional().describe(
      "share of requests that is reported: an event counts 1/sample_rate times",
    ),
    key_first_daily: z.boolean().optional().describe("whether every key's first request of a UTC day is reported"),
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
