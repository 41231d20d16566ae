// The policy feed: a snapshot in pages, then deltas (docs/design/0004-policy-feed-and-versions.md). List-then-watch:
// every page carries the version of the first page and may already contain later changes; the delta since that version
// repeats them, so nodes converge.
import { fail } from "../../kernel/errors.ts";
import { thenMaybe, type MaybePromise } from "../../kernel/maybe-promise.ts";
import { ownerOf, type SecretKeyActor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { orCredentialEnds, validMs } from "./credential-end.ts";
import type { Head } from "./head.ts";
import { buildDelta, buildSnapshot, NO_DELTA } from "./build-page.ts";
import { readCursor, type Cursor } from "./cursor.ts";
import { cutTagOf, filterOf, segmentOf, tagOf, type Filter, type FilterQuery } from "./filter.ts";
import type { Page, Wanted } from "./page-cache.ts";
import type { PollingNode } from "../nodes/traits.ts";
import type { OnDisconnect } from "../core/subscription.ts";

export const DELTA_VERSIONS_MAX = 10_000;

type FeedQuery = FilterQuery & { node?: string | undefined; max_keys?: number | undefined };
type SnapshotQuery = FeedQuery & { cursor?: string | undefined };
type DeltaQuery = FeedQuery & { since: number; wait_ms: number; leaving: "true" | "false" };

/** `page` is null when the caller already has the content with this tag. */
export type FeedResponse = { tag: string; page: Page | null };

type FoundPage = { tag: string; page: Page; prefetchNext?: () => void };

/** Prefetches the next page while this one is being sent. bench: feed/snapshot */
function sendAndPrefetch({ tag, page, prefetchNext }: FoundPage): FeedResponse {
  prefetchNext?.();
  return { tag, page };
}

/** `hasTag`: whether the caller already has the content with this tag. `sdk`: its library, if it names one. */
export type FeedCaller = { hasTag(tag: string): boolean; sdk: string | null };

/** One request of the feed. */
type FeedRequest<Q extends FeedQuery = FeedQuery> = {
  readonly ctx: Ctx<SecretKeyActor>;
  readonly filter: Filter;
  readonly query: Q;
  readonly caller: FeedCaller;
};
type Poll = FeedRequest<DeltaQuery> & { readonly onEnd: OnDisconnect };

export async function policySnapshot(
  ctx: Ctx<SecretKeyActor>,
  query: SnapshotQuery,
  caller: FeedCaller,
): Promise<FeedResponse> {
  const { services } = ctx;
  const filter = filterOf(ctx, query);
  const request = { ctx, filter, query, caller };
  const head = await services.feed.head(ctx.actor.workspace_id, query.project_id);
  const cursor = query.cursor === undefined ? null : readCursor(services, head, filter, query.cursor);
  if (query.node) {
    await services.nodes.register(head, nodeOf(request, query.node));
    await ctx.requireStillValid?.(); // it may have waited
  }
  const tag = tagOf("snap", head, filter, head.version);
  // All pages of a version share its tag, so a 304 is possible for the first page only.
  if (!cursor && caller.hasTag(tag)) return { tag, page: null };
  return sendAndPrefetch(await findSnapshot(request, head, cursor));
}

/** Returns without a promise in the common case: no change, and the head is cached. bench: feed/unchanged-poll */
export function policyDelta(
  ctx: Ctx<SecretKeyActor>,
  query: DeltaQuery,
  caller: FeedCaller,
  onDisconnect: OnDisconnect,
): MaybePromise<FeedResponse> {
  const filter = filterOf(ctx, query);
  const poll: Poll = { ctx, filter, query, caller, onEnd: orCredentialEnds(ctx, onDisconnect) };
  const head = ctx.services.feed.head(ctx.actor.workspace_id, query.project_id);
  return thenMaybe(head, (read) => deltaAt(poll, read));
}

function deltaAt(poll: Poll, head: Head): MaybePromise<FeedResponse> {
  const { filter, query } = poll;
  if (query.node) acknowledge(poll, head, query.node);
  const waits = query.wait_ms > 0 && query.leaving === "false";
  if (query.since === head.version && !waits) return { tag: tagOf("delta", head, filter, head.version), page: null };
  return awaitDelta(poll, head);
}

async function awaitDelta(poll: Poll, current: Head): Promise<FeedResponse> {
  const { ctx, filter, query, caller } = poll;
  const { since } = query;
  const { feed } = ctx.services;
  const waits = since === current.version || (query.wait_ms > 0 && feed.defers(ownerOf(ctx.actor), current, since));
  const head = waits ? await awaitChange(poll, current) : current;
  if (since === head.version) return { tag: tagOf("delta", head, filter, since), page: null };
  const found = await deltaSince(poll, head);
  if (head !== current) await ctx.requireStillValid?.();
  return caller.hasTag(found.tag) ? { tag: found.tag, page: null } : sendAndPrefetch(found);
}

function acknowledge(poll: Poll, head: Head, node_id: string): void {
  const { ctx, filter, query, caller } = poll;
  const { nodes } = ctx.services;
  const node = nodeOf(poll, node_id);
  if (query.leaving === "true") nodes.leave(head, node);
  else if (query.since < head.version && caller.hasTag(cutTagOf(head, filter, query.since))) nodes.seen(head, node);
  else if (query.since <= head.version) nodes.acknowledge(head, node, query.since);
}

function nodeOf({ ctx, filter, caller }: FeedRequest, node_id: string): PollingNode {
  const { account_id, restriction } = ctx.actor;
  const { env, announced: caps } = filter;
  return { node_id, env_scope: env ?? "all", caps, full_power: restriction === null, sdk: caller.sdk, account_id };
}

/** The head once it differs from `since`, or the current one when the wait has ended otherwise. */
async function awaitChange({ ctx, query, onEnd }: Poll, head: Head): Promise<Head> {
  const { feed } = ctx.services;
  const owner = ownerOf(ctx.actor);
  const waitMs = Math.min(query.wait_ms, validMs(ctx));
  const subscription = feed.subscribe(owner, { project_id: head.project_id, version: query.since }, waitMs, onEnd);
  if (!subscription) return head;
  try {
    // Read again after subscribing: a change in between was not notified.
    let now = await feed.head(ctx.actor.workspace_id, head.project_id);
    while (!subscription.ended && (now.version === query.since || feed.defers(owner, now, query.since))) {
      const newer = await subscription.changed();
      await ctx.requireStillValid?.();
      now = newer ?? (await feed.head(ctx.actor.workspace_id, head.project_id));
    }
    if (subscription.ended) await ctx.requireStillValid?.(); // it may have ended before the first wait
    return now;
  } finally {
    subscription.close();
  }
}

async function deltaSince(poll: Poll, head: Head): Promise<FoundPage> {
  const { ctx, filter, query } = poll;
  const { feed, clock } = ctx.services;
  const { since, max_keys } = query;
  if (head.deleted || needsSnapshot(head, since)) return findSnapshot(poll, head, null);
  const limit = pageLimit(ctx, max_keys);
  const wanted = wantedPage(ctx, `delta:${head.project_id}:${segmentOf(head, filter)}:${since}:${head.version}`, limit);
  const page = await feed.pages.get(wanted, clock.now(), () => buildDelta(ctx, head, filter, since, limit));
  return page === NO_DELTA ? findSnapshot(poll, head, null) : { tag: page.tag, page };
}

function needsSnapshot(head: Head, since: number): boolean {
  if (since === 0 || since > head.version || since < head.min_delta_version) return true;
  return head.version - since > DELTA_VERSIONS_MAX;
}

function pageLimit(ctx: Ctx, max_keys: number | undefined): number {
  const ceiling = ctx.services.settings.snapshot_max_keys;
  return Math.min(max_keys ?? ceiling, ceiling);
}

/** The cache keys of a page that starts here. Pages that no caller's `max_keys` has cut are keyed by the ceiling. */
function wantedPage({ services, actor }: Ctx, start: string, limit: number): Wanted {
  const whole = `${start}:${services.settings.snapshot_max_keys}`;
  return { key: `${start}:${limit}`, whole, limit, owner: ownerOf(actor) };
}

async function findSnapshot(request: FeedRequest, head: Head, cursor: Cursor | null): Promise<FoundPage> {
  const { ctx, filter, query } = request;
  const { max_keys } = query;
  const { pages } = ctx.services.feed;
  const now = ctx.services.clock.now();
  const limit = pageLimit(ctx, max_keys);
  const segment = segmentOf(head, filter);
  const wanted = ({ version, after }: Cursor): Wanted =>
    wantedPage(ctx, `snap:${head.project_id}:${segment}:${version}:${head.deleted}:${after}`, limit);
  const build = (start: Cursor) => (): Promise<Page> => buildSnapshot(ctx, head, filter, start, limit);
  const start = cursor && !head.deleted ? cursor : { version: head.version, after: "" };
  const page = await pages.get(wanted(start), now, build(start));
  if (page.last === null) return { tag: page.tag, page };
  if (max_keys === undefined && !cursor) throw fail("snapshot_too_large");
  const next = { ...start, after: page.last };
  return { tag: page.tag, page, prefetchNext: () => pages.prefetch(wanted(next), now, build(next)) };
}
