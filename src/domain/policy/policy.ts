// The policy feed: a snapshot in pages, then deltas (docs/design/0004-policy-feed-and-versions.md). List-then-watch:
// every page carries the version of the first page and may already contain later changes; the delta since that version
// repeats them, so nodes converge.
import { fail } from "../../kernel/errors.ts";
import { ownerOf, type SecretKeyActor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { orCredentialEnds, validMs } from "../core/credential-end.ts";
import type { Head } from "./head.ts";
import { NO_DELTA, PageBuilder } from "./build-page.ts";
import { readCursor, type Cursor } from "./cursor.ts";
import { cutTagsOf, filterOf, segmentOf, tagOf, type Filter, type FilterQuery } from "./filter.ts";
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
  let head = await services.feed.head(ctx.actor.workspace_id, query.project_id);
  const cursor = query.cursor === undefined ? null : readCursor(services, head, filter, query.cursor);
  if (query.node) {
    const node = nodeOf(request, query.node);
    const isRegistered = services.nodes.noteSeen(head, node);
    // With its first page the node was registered.
    if (!isRegistered && !cursor) head = await headAfterRegistration(ctx, head, node, { isFirst: true });
  }
  const tag = tagOf("snap", head, filter, head.version);
  // All pages of a version share its tag, so a 304 is possible for the first page only.
  if (!cursor && caller.hasTag(tag)) return { tag, page: null };
  return sendAndPrefetch(await findSnapshot(request, head, cursor));
}

/** The tag of a policy that has not changed, if that is known without waiting. bench: feed/unchanged-poll */
export function unchangedTag(ctx: Ctx<SecretKeyActor>, query: DeltaQuery, caller: FeedCaller): string | undefined {
  const { feed } = ctx.services;
  const head = waits(query) ? undefined : feed.headAt(query.since, ctx.actor.workspace_id, query.project_id);
  if (!head) return undefined;
  const filter = filterOf(ctx, query);
  const request = { ctx, filter, query, caller };
  if (query.node && !acknowledge(request, head, nodeOf(request, query.node))) return undefined;
  return tagOf("delta", head, filter, head.version);
}

function waits({ wait_ms, leaving }: DeltaQuery): boolean {
  return wait_ms > 0 && leaving === "false";
}

export async function policyDelta(
  ctx: Ctx<SecretKeyActor>,
  query: DeltaQuery,
  caller: FeedCaller,
  onDisconnect: OnDisconnect,
): Promise<FeedResponse> {
  const filter = filterOf(ctx, query);
  const poll: Poll = { ctx, filter, query, caller, onEnd: orCredentialEnds(ctx, onDisconnect) };
  let head = await ctx.services.feed.head(ctx.actor.workspace_id, query.project_id);
  if (query.node) {
    const node = nodeOf(poll, query.node);
    if (!acknowledge(poll, head, node))
      head = await headAfterRegistration(ctx, head, node, { isFirst: query.since === 0 });
  }
  if (query.since === head.version && !waits(query))
    return { tag: tagOf("delta", head, filter, head.version), page: null };
  return awaitDelta(poll, head);
}

async function awaitDelta(poll: Poll, current: Head): Promise<FeedResponse> {
  const { ctx, filter, query, caller } = poll;
  const { since } = query;
  const { feed } = ctx.services;
  const mustWait = since === current.version || (query.wait_ms > 0 && feed.defers(ownerOf(ctx.actor), current, since));
  const head = mustWait ? await awaitChange(poll, current) : current;
  if (since === head.version) return { tag: tagOf("delta", head, filter, since), page: null };
  const found = await deltaSince(poll, head);
  if (head !== current) await ctx.requireStillValid?.();
  return caller.hasTag(found.tag) ? { tag: found.tag, page: null } : sendAndPrefetch(found);
}

/** Whether the node may get its response at once: it is registered, or is leaving. */
function acknowledge({ ctx, filter, query, caller }: FeedRequest<DeltaQuery>, head: Head, node: PollingNode): boolean {
  const { nodes } = ctx.services;
  const { since } = query;
  if (query.leaving === "true") {
    nodes.leave(head, node);
    return true;
  }
  const isCut = since < head.version && cutTagsOf(head, filter, since).some((tag) => caller.hasTag(tag));
  // A version above ours acknowledges nothing: the node is sent a snapshot.
  return isCut || since > head.version ? nodes.noteSeen(head, node) : nodes.acknowledge(head, node, since);
}

/**
 * The head read once receipts count the node: a receipt for a change after this head waits for the node, and every
 * change before is in the response. Where they cannot count it, it does not get its first policy. A node that holds one
 * is served nevertheless: it would only verify with an older policy.
 */
async function headAfterRegistration(
  ctx: Ctx<SecretKeyActor>,
  head: Head,
  node: PollingNode,
  { isFirst }: { isFirst: boolean },
): Promise<Head> {
  const isRegistered = await ctx.services.nodes.awaitRegistration(head, node);
  if (isFirst && !isRegistered) throw fail("unavailable");
  await ctx.requireStillValid?.();
  return ctx.services.feed.head(ctx.actor.workspace_id, head.project_id);
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
    let latest = await feed.head(ctx.actor.workspace_id, head.project_id);
    while (!subscription.ended && (latest.version === query.since || feed.defers(owner, latest, query.since))) {
      const newer = await subscription.changed();
      await ctx.requireStillValid?.();
      latest = newer ?? (await feed.head(ctx.actor.workspace_id, head.project_id));
    }
    if (subscription.ended) await ctx.requireStillValid?.(); // it may have ended before the first wait
    return latest;
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
  const page = await feed.pages.get(wanted, clock.now(), () => new PageBuilder(ctx, head, filter).delta(since, limit));
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
  const uncutKey = `${start}:${services.settings.snapshot_max_keys}`;
  return { key: `${start}:${limit}`, uncutKey, limit, owner: ownerOf(actor) };
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
  const build = (start: Cursor) => (): Promise<Page> => new PageBuilder(ctx, head, filter).snapshot(start, limit);
  const start = cursor && !head.deleted ? cursor : { version: head.version, after: "" };
  const page = await pages.get(wanted(start), now, build(start));
  if (page.last === null) return { tag: page.tag, page };
  if (max_keys === undefined && !cursor) throw fail("snapshot_too_large");
  const next = { ...start, after: page.last };
  return { tag: page.tag, page, prefetchNext: () => pages.prefetch(wanted(next), now, build(next)) };
}
