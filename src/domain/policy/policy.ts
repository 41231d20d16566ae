// The policy feed: whole policy in pages, then what changed. List-then-watch: every page reports the first page's
// version and may already show later changes; the delta since that version tells them again, so a node converges.
import { fail } from "../../kernel/errors.ts";
import type { Env } from "../../kernel/credentials.ts";
import type { SecretKeyActor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import type { Head } from "./feed.ts";
import { buildDelta, buildSnapshot, NO_DELTA } from "./build-page.ts";
import { readCursor, type Cursor } from "./cursor.ts";
import { filterOf, tagOf, type Filter } from "./filter.ts";
import type { Page } from "./page-cache.ts";
import type { OnDisconnect } from "../core/subscription.ts";

export const DELTA_VERSIONS_MAX = 10_000;

export type FeedQuery = {
  project_id: string;
  env?: Env | undefined;
  tenant_id?: readonly string[] | undefined;
  node?: string | undefined;
  max_keys?: number | undefined;
};
export type SnapshotQuery = FeedQuery & { cursor?: string | undefined };
export type DeltaQuery = FeedQuery & { since: number; wait_ms: number; leaving: "true" | "false" };

/** What to answer: the content's tag, and the page unless the caller has it already. */
export type FeedResponse = { tag: string; page: Page | null };

/** A page, and how to have the next one ready for whoever is sent this one. */
type Found = { tag: string; page: Page; prepareNext?: () => void };

/** Whoever takes a page takes the next one too: it is made while this one is on its way. */
function told({ tag, page, prepareNext }: Found): FeedResponse {
  prepareNext?.();
  return { tag, page };
}

/** Whether the caller already holds what this tag names. */
export type HasTag = (tag: string) => boolean;

export async function policySnapshot(
  ctx: Ctx<SecretKeyActor>,
  query: SnapshotQuery,
  holds: HasTag,
): Promise<FeedResponse> {
  const { services } = ctx;
  const filter = filterOf(ctx, query);
  const head = await services.feed.head(ctx.actor.workspace_id, query.project_id);
  const cursor =
    query.cursor === undefined ? null : readCursor(services, head.project_id, filter.segment, query.cursor);
  if (query.node) services.nodes.seen(head, query.node, filter.env ?? "all");
  const tag = tagOf("snap", head, filter, head.version);
  // All pages of a version share its tag, so only a whole answer may be spared.
  if (!cursor && holds(tag)) return { tag, page: null };
  return told(await wholePolicy(ctx, head, filter, query.max_keys, cursor));
}

/** Answers without a promise where it can: most polls of a fleet bring no news and meet a remembered head. */
export function policyDelta(
  ctx: Ctx<SecretKeyActor>,
  query: DeltaQuery,
  holds: HasTag,
  onDisconnect: OnDisconnect,
): FeedResponse | Promise<FeedResponse> {
  const { services, actor } = ctx;
  const filter = filterOf(ctx, query);
  const head = services.feed.head(actor.workspace_id, query.project_id);
  if (head instanceof Promise) return head.then((read) => deltaAt(ctx, read, filter, query, holds, onDisconnect));
  return deltaAt(ctx, head, filter, query, holds, onDisconnect);
}

function deltaAt(
  ctx: Ctx<SecretKeyActor>,
  head: Head,
  filter: Filter,
  query: DeltaQuery,
  holds: HasTag,
  onDisconnect: OnDisconnect,
): FeedResponse | Promise<FeedResponse> {
  if (query.node) acknowledge(ctx, head, filter, query, query.node);
  const waits = query.wait_ms > 0 && query.leaving === "false";
  if (query.since === head.version && !waits) return { tag: tagOf("delta", head, filter, head.version), page: null };
  return newsOrNothing(ctx, head, filter, query, holds, onDisconnect);
}

async function newsOrNothing(
  ctx: Ctx<SecretKeyActor>,
  then: Head,
  filter: Filter,
  query: DeltaQuery,
  holds: HasTag,
  onDisconnect: OnDisconnect,
): Promise<FeedResponse> {
  const { since } = query;
  const head = since === then.version ? await moved(ctx, then, query, onDisconnect) : then;
  if (since === head.version) return { tag: tagOf("delta", head, filter, since), page: null };
  const fed = await newsSince(ctx, head, filter, query);
  return holds(fed.tag) ? { tag: fed.tag, page: null } : told(fed);
}

function acknowledge(ctx: Ctx, head: Head, filter: Filter, { since, leaving }: DeltaQuery, node: string): void {
  const scope = filter.env ?? "all";
  if (leaving === "true") ctx.services.nodes.leave(head, node, scope);
  else if (since <= head.version) ctx.services.nodes.acknowledge(head, node, scope, since);
}

/** The head once it has moved on from `since`, or as it is when the time is up or the caller is gone. */
async function moved(
  ctx: Ctx<SecretKeyActor>,
  head: Head,
  query: DeltaQuery,
  onDisconnect: OnDisconnect,
): Promise<Head> {
  const { feed } = ctx.services;
  const subscription = feed.subscribe(head.project_id, query.wait_ms, onDisconnect);
  if (!subscription) return head;
  try {
    // Looked at again after joining: a change between the first look and then has woken nobody.
    let now = await feed.head(ctx.actor.workspace_id, head.project_id);
    while (now.version === query.since && !subscription.ended) {
      await subscription.changed();
      now = await feed.headAfterChange(ctx.actor.workspace_id, head.project_id);
    }
    return now;
  } finally {
    subscription.close();
  }
}

async function newsSince(ctx: Ctx, head: Head, filter: Filter, query: DeltaQuery): Promise<Found> {
  const { feed, clock } = ctx.services;
  const { since, max_keys } = query;
  if (head.deleted || isTooFarBehind(head, since)) return wholePolicy(ctx, head, filter, max_keys, null);
  const limit = pageLimit(ctx, max_keys);
  const key = `delta:${head.project_id}:${filter.segment}:${since}:${head.version}:${limit}`;
  const page = await feed.pages.get(key, clock.now(), () => buildDelta(ctx, head, filter, since, limit));
  return page === NO_DELTA ? wholePolicy(ctx, head, filter, max_keys, null) : { tag: page.tag, page };
}

function isTooFarBehind(head: Head, since: number): boolean {
  if (since === 0 || since > head.version || since < head.min_delta_version) return true;
  return head.version - since > DELTA_VERSIONS_MAX;
}

function pageLimit(ctx: Ctx, max_keys: number | undefined): number {
  const ceiling = ctx.services.settings.snapshot_max_keys;
  return Math.min(max_keys ?? ceiling, ceiling);
}

async function wholePolicy(
  ctx: Ctx,
  head: Head,
  filter: Filter,
  max_keys: number | undefined,
  cursor: Cursor | null,
): Promise<Found> {
  const { pages } = ctx.services.feed;
  const now = ctx.services.clock.now();
  const limit = pageLimit(ctx, max_keys);
  const key = ({ version, after }: Cursor): string =>
    `snap:${head.project_id}:${filter.segment}:${version}:${head.deleted}:${after}:${limit}`;
  const build = (start: Cursor) => (): Promise<Page> => buildSnapshot(ctx, head, filter, start, limit);
  const start = cursor && !head.deleted ? cursor : { version: head.version, after: "" };
  const page = await pages.get(key(start), now, build(start));
  if (page.last === null) return { tag: page.tag, page };
  if (max_keys === undefined && !cursor) throw fail("snapshot_too_large");
  const next = { ...start, after: page.last };
  return { tag: page.tag, page, prepareNext: () => pages.prepare(key(next), now, build(next)) };
}
