// The policy feed. The domain returns serialised pages, which are sent as they are.
import { CAPS_CHARS_MAX } from "../../kernel/policy/capabilities.ts";
import { z } from "zod";
import type { Machine, Services } from "../../domain/core/context.ts";
import { readSdk } from "../../domain/nodes/sdk-name.ts";
import {
  policyDelta,
  policySnapshot,
  unchangedTag,
  type FeedCaller,
  type FeedResponse,
} from "../../domain/policy/policy.ts";
import type { Encoding } from "../../domain/policy/page-bytes.ts";
import type { Page } from "../../domain/policy/page-cache.ts";
import { endpoint } from "../../http/endpoint.ts";
import { matchesEtag, onDisconnect, type HttpRequest } from "../../http/request.ts";
import { HttpResponse, JSON_TYPE, notModified } from "../../http/response.ts";
import { Env, Flag, NodeId, text, Uuid } from "../schemas.ts";
import { PolicyDelta, PolicySnapshot } from "./policy-schemas.ts";

const CACHING = { "cache-control": "private, no-cache", vary: "accept-encoding" };
const WAIT_MS_MAX = 25_000;
const TENANTS_MAX = 50;

const filter = {
  project_id: Uuid.describe("project whose policy is read"),
  env: Env.optional().describe("only keys of this environment"),
  tenant_id: z.array(Uuid).min(1).max(TENANTS_MAX).optional().describe("only keys of these tenants"),
  node: NodeId.optional().describe("id of the polling node; its polls acknowledge versions"),
  caps: text(1, CAPS_CHARS_MAX)
    .optional()
    .describe(
      "what the node enforces: names joined by commas, of cidr, disabled, formats and quotas; others are ignored",
    ),
  max_keys: z.int().min(1).optional().describe("keys on a page"),
};

export const policySnapshotShow = endpoint("GET /v1/policy/snapshot", {
  summary: "Read the complete policy of a project, in pages if max_keys is given.",
  access: "machine.use",
  hot: "lanes/snapshot",
  query: z.strictObject({ ...filter, cursor: text(1, 512).optional().describe("next_cursor of the previous page") }),
  output: PolicySnapshot,
  hasEtag: true,
  failures: ["project_not_found", "test_cannot_live", "snapshot_too_large"],
  handle: async (ctx, { query, request }) =>
    toResponse(ctx, request, await policySnapshot(ctx, query, callerOf(request))),
});

export const policyDeltaShow = endpoint("GET /v1/policy/delta", {
  summary:
    "Read the changes since a policy version; 304 if there are none. With wait_ms the response waits for a change.",
  access: "machine.use",
  hot: "lanes/delta",
  query: z.strictObject({
    ...filter,
    since: z.int().min(0).describe("policy version that the node holds"),
    wait_ms: z.int().min(0).max(WAIT_MS_MAX).default(0).describe("how long to wait for a change, in milliseconds"),
    leaving: Flag.default("false").describe("the node is shutting down: revocations no longer wait for it"),
  }),
  output: z.union([PolicyDelta, PolicySnapshot]),
  hasEtag: true,
  failures: ["project_not_found", "test_cannot_live", "snapshot_too_large"],
  handle: (ctx, { query, request }) => {
    const caller = callerOf(request);
    const tag = unchangedTag(ctx, query, caller);
    if (tag !== undefined) return notModified(ctx, tag, CACHING);
    const delta = policyDelta(ctx, query, caller, onDisconnect(request));
    return delta.then((found) => toResponse(ctx, request, found));
  },
});

function callerOf({ headers }: HttpRequest): FeedCaller {
  return { hasTag: (tag) => matchesEtag(headers, `"${tag}"`), sdk: readSdk(headers["keyrack-sdk"]) };
}

async function toResponse(ctx: Machine, { headers }: HttpRequest, { tag, page }: FeedResponse): Promise<HttpResponse> {
  if (!page) return notModified(ctx, tag, CACHING);
  return smallResponses.get(page) ?? pageResponse(ctx.services, page, encodingFor(headers["accept-encoding"]));
}

/** Small responses are built once: a change reaches every node in the same few hundred bytes. bench: feed/revocation */
const smallResponses = new WeakMap<Page, HttpResponse>();

async function pageResponse({ feed }: Services, page: Page, encoding: Encoding | undefined): Promise<HttpResponse> {
  const fields = { "content-type": JSON_TYPE, etag: `W/"${page.tag}"`, ...CACHING };
  const encoded = encoding && (await feed.pages.encoded(page, encoding));
  if (encoded) return new HttpResponse(200, encoded, { ...fields, "content-encoding": encoding });
  const chunks = await feed.pages.plain(page);
  if (!feed.pages.isSmall(page)) return new HttpResponse(200, chunks, fields);
  // As text it is written together with its headers.
  const response = new HttpResponse(200, Buffer.concat(chunks).toString(), Object.freeze(fields));
  smallResponses.set(page, response);
  return response;
}

/** The best encoding that the caller accepts; q=0 means not acceptable. */
function encodingFor(accepted: string | string[] | undefined): Encoding | undefined {
  if (accepted === undefined) return undefined;
  const names = String(accepted)
    .toLowerCase()
    .split(",")
    .filter((item) => !/;\s*q\s*=\s*0(\.0*)?\s*$/.test(item))
    .map((item) => item.split(";")[0]?.trim());
  return (["zstd", "gzip"] as const).find((name) => names.includes(name));
}
