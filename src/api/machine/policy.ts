// The policy feed. Answers come serialised from the domain, so they are sent as bytes, never rebuilt.
import { BoundedMap } from "../../kernel/lru.ts";
import { z } from "zod";
import type { Services } from "../../domain/core/context.ts";
import { policyDelta, policySnapshot, type FeedResponse } from "../../domain/policy/policy.ts";
import type { Encoding, Page } from "../../domain/policy/page-cache.ts";
import type { OnDisconnect } from "../../domain/core/subscription.ts";
import { endpoint } from "../../http/endpoint.ts";
import { matchesEtag, type HttpRequest } from "../../http/request.ts";
import { HttpResponse, JSON_TYPE } from "../../http/response.ts";
import { Env, Flag, NodeId, text, Uuid } from "../schemas.ts";
import { PolicyDelta, PolicySnapshot } from "./policy-schemas.ts";

const CACHING = { "cache-control": "private, no-cache", vary: "accept-encoding" };
const WAIT_MS_MAX = 25_000;
const TENANTS_MAX = 50;

const asked = {
  project_id: Uuid,
  env: Env.optional(),
  tenant_id: z.array(Uuid).min(1).max(TENANTS_MAX).optional(),
  node: NodeId.optional(),
  max_keys: z.int().min(1).optional(),
};

export const policySnapshotShow = endpoint("GET /v1/policy/snapshot", {
  summary: "The whole policy of a project, in pages where max_keys is sent.",
  access: "machine.use",
  hot: "lanes/snapshot",
  query: z.strictObject({ ...asked, cursor: text(1, 512).optional() }),
  output: PolicySnapshot,
  failures: ["project_not_found", "test_cannot_live", "snapshot_too_large"],
  handle: async (ctx, { query, request }) =>
    respond(ctx.services, request, await policySnapshot(ctx, query, hasVersion(request))),
});

export const policyDeltaShow = endpoint("GET /v1/policy/delta", {
  summary: "What changed since a version; 304 when nothing did. wait_ms holds the answer until something does.",
  access: "machine.use",
  hot: "lanes/delta",
  query: z.strictObject({
    ...asked,
    since: z.int().min(0),
    wait_ms: z.int().min(0).max(WAIT_MS_MAX).default(0),
    leaving: Flag.default("false"),
  }),
  output: z.union([PolicyDelta, PolicySnapshot]),
  failures: ["project_not_found", "test_cannot_live", "snapshot_too_large"],
  handle: (ctx, { query, request }) => {
    const fed = policyDelta(ctx, query, hasVersion(request), goneOf(request));
    if (fed instanceof Promise) return fed.then((found) => respond(ctx.services, request, found));
    return respond(ctx.services, request, fed);
  },
});

/** Whether the caller has the version with this tag already. */
function hasVersion({ headers }: HttpRequest): (tag: string) => boolean {
  return (tag) => matchesEtag(headers, `"${tag}"`);
}

/** A request that has been read never closes; only its socket shows that the client has disconnected. */
function goneOf({ socket }: HttpRequest): OnDisconnect {
  return (listener) => {
    if (socket.destroyed) listener();
    socket.once("close", listener);
    return () => socket.off("close", listener);
  };
}

const UNCHANGED_MAX = 1_000;
const unchanged = new BoundedMap<string, HttpResponse>({ max: UNCHANGED_MAX, evictAtOnce: UNCHANGED_MAX });

/** Most polls are answered with the same few words. */
function notModified(tag: string): HttpResponse {
  const known = unchanged.get(tag);
  if (known) return known;
  const answer = new HttpResponse(304, null, Object.freeze({ etag: `W/"${tag}"`, ...CACHING }));
  unchanged.set(tag, answer);
  return answer;
}

function respond(
  services: Services,
  { headers }: HttpRequest,
  { tag, page }: FeedResponse,
): HttpResponse | Promise<HttpResponse> {
  if (!page) return notModified(tag);
  return small.get(page) ?? sendPage(services, page, encodingFor(headers["accept-encoding"]));
}

/** Answers that are the same for everybody: a change reaches a whole fleet in the same few hundred bytes. */
const small = new WeakMap<Page, HttpResponse>();

async function sendPage({ feed }: Services, page: Page, encoding: Encoding | undefined): Promise<HttpResponse> {
  const fields = { "content-type": JSON_TYPE, etag: `W/"${page.tag}"`, ...CACHING };
  const encoded = encoding && (await feed.pages.encoded(page, encoding));
  if (encoded) return new HttpResponse(200, encoded, { ...fields, "content-encoding": encoding });
  const chunks = await feed.pages.plain(page);
  if (!feed.pages.isSmall(page)) return new HttpResponse(200, chunks, fields);
  // As text it leaves in one piece with its headers.
  const answer = new HttpResponse(200, Buffer.concat(chunks).toString(), Object.freeze(fields));
  small.set(page, answer);
  return answer;
}

/** The better of the two that the caller takes; what it refuses with q=0 is not taken. */
function encodingFor(accepted: string | string[] | undefined): Encoding | undefined {
  if (accepted === undefined) return undefined;
  const taken = String(accepted)
    .toLowerCase()
    .split(",")
    .filter((item) => !/;\s*q\s*=\s*0(\.0*)?\s*$/.test(item))
    .map((item) => item.split(";")[0]?.trim());
  return (["zstd", "gzip"] as const).find((name) => taken.includes(name));
}
