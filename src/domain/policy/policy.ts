// The policy feed: whole policy in pages, then what changed. List-then-watch: every page reports the first page's
// version and may already show later changes; the delta since that version tells them again, so a node converges.
import { hash } from "node:crypto";
import { fail } from "../../kernel/errors.ts";
import type { Env } from "../../kernel/credentials.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { changesSince, snapshotChunk, versionChangedAt, type Change } from "../../store/queries/policy.ts";
import type { PolicySelection } from "../../store/queries/policy-params.ts";
import type { SecretKeyActor } from "../core/actor.ts";
import { visibleEnv } from "../core/env-access.ts";
import type { Ctx } from "../core/context.ts";
import type { Head } from "./feed.ts";
import { readCursor, writeCursor, type Cursor } from "./cursor.ts";
import type { Page } from "./page-cache.ts";
import type { OnGone } from "../core/waiter.ts";

const HOUR_MS = 3_600_000;
/** An expired key is told of for this long, so that its refusal can say why. */
const TELL_EXPIRED_MS = 24 * HOUR_MS;
export const DELTA_VERSIONS_MAX = 10_000;
export const DELTA_AGE_MAX_MS = 7 * 24 * HOUR_MS;
/** Keys read at a time: the event loop is held for about two milliseconds, not for a whole page. */
const CHUNK_KEYS = 2_000;

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
export type Fed = { tag: string; page: Page | null };

/** A page, and how to have the next one ready for whoever is sent this one. */
type Found = { tag: string; page: Page; prepareNext?: () => void };

/** Whoever takes a page takes the next one too: it is made while this one is on its way. */
function told({ tag, page, prepareNext }: Found): Fed {
  prepareNext?.();
  return { tag, page };
}

/** Whether the caller already holds what this tag names. */
export type Holds = (tag: string) => boolean;

type Filter = { env: Env | null; tenants: readonly string[]; segment: string };

const whole = (env: Env | null): Filter => Object.freeze({ env, tenants: [], segment: `${env ?? "all"}:all` });
const WHOLE = { live: whole("live"), test: whole("test"), all: whole(null) };

function filterOf(ctx: Ctx, query: FeedQuery): Filter {
  const env = visibleEnv(ctx.actor, query.env) ?? null;
  if (!query.tenant_id) return WHOLE[env ?? "all"];
  const tenants = [...new Set(query.tenant_id)].toSorted();
  return { env, tenants, segment: `${env ?? "all"}:t-${hash("sha256", tenants.join(",")).slice(0, 16)}` };
}

function tagOf(kind: "snap" | "delta", head: Head, filter: Filter, version: number): string {
  return `${kind}:${head.project_id}:${filter.segment}:${version}`;
}

export async function policySnapshot(ctx: Ctx<SecretKeyActor>, query: SnapshotQuery, holds: Holds): Promise<Fed> {
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
  holds: Holds,
  onGone: OnGone,
): Fed | Promise<Fed> {
  const { services, actor } = ctx;
  const filter = filterOf(ctx, query);
  const head = services.feed.head(actor.workspace_id, query.project_id);
  if (head instanceof Promise) return head.then((read) => deltaAt(ctx, read, filter, query, holds, onGone));
  return deltaAt(ctx, head, filter, query, holds, onGone);
}

function deltaAt(
  ctx: Ctx<SecretKeyActor>,
  head: Head,
  filter: Filter,
  query: DeltaQuery,
  holds: Holds,
  onGone: OnGone,
): Fed | Promise<Fed> {
  if (query.node) acknowledge(ctx, head, filter, query, query.node);
  const waits = query.wait_ms > 0 && query.leaving === "false";
  if (query.since === head.version && !waits) return { tag: tagOf("delta", head, filter, head.version), page: null };
  return newsOrNothing(ctx, head, filter, query, holds, onGone);
}

async function newsOrNothing(
  ctx: Ctx<SecretKeyActor>,
  then: Head,
  filter: Filter,
  query: DeltaQuery,
  holds: Holds,
  onGone: OnGone,
): Promise<Fed> {
  const { since } = query;
  const head = since === then.version ? await moved(ctx, then, query, onGone) : then;
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
async function moved(ctx: Ctx<SecretKeyActor>, head: Head, query: DeltaQuery, onGone: OnGone): Promise<Head> {
  const { feed } = ctx.services;
  const waiter = feed.join(head.project_id, query.wait_ms, onGone);
  if (!waiter) return head;
  try {
    // Looked at again after joining: a change between the first look and then has woken nobody.
    let now = await feed.head(ctx.actor.workspace_id, head.project_id);
    while (now.version === query.since && !waiter.over) {
      await waiter.next();
      now = await feed.headOnceWoken(ctx.actor.workspace_id, head.project_id);
    }
    return now;
  } finally {
    waiter.leave();
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

function narrowing(head: Head, { env, tenants }: Filter): PolicySelection {
  return { project_id: head.project_id, env, tenants, defaults: head.default_rate_limits };
}

/** The fields before the list, as open JSON. */
function opening(ctx: Ctx, head: Head, filter: Filter, object: string, versions: Record<string, number>): string {
  const fields = {
    object,
    workspace_id: head.workspace_id,
    project_id: head.project_id,
    env: filter.env,
    ...versions,
    project_deleted: head.deleted,
    generated_at: formatTimestamp(ctx.services.clock.now()),
  };
  return JSON.stringify(fields).slice(0, -1);
}

function pageOf(
  tag: string,
  chunks: Uint8Array[],
  staleAt = Number.POSITIVE_INFINITY,
  last: string | null = null,
): Page {
  const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  return { tag, chunks, encoded: {}, bytes, last, staleAt };
}

/** Stands for a delta that cannot be told: above the ceiling, or of changes too long ago. */
const NO_DELTA = pageOf("", []);

async function buildDelta(ctx: Ctx, head: Head, filter: Filter, since: number, limit: number): Promise<Page> {
  const { store, clock } = ctx.services;
  const next = await versionChangedAt.first(store.read, { project_id: head.project_id, version: since + 1 });
  if (!next || next.changed_at < clock.now() - DELTA_AGE_MAX_MS) return NO_DELTA;
  const changes = await changesWithin(ctx, head, filter, since, limit);
  if (!changes) return NO_DELTA;
  return deltaPage(ctx, head, filter, { since, ...changes }, next.changed_at + DELTA_AGE_MAX_MS + 1);
}

type Told = { version: number; changes: Change[] };

/** Whole versions only, up to `limit` changes; null when a single one is above the ceiling. */
async function changesWithin(ctx: Ctx, head: Head, filter: Filter, since: number, limit: number): Promise<Told | null> {
  const wanted = { ...narrowing(head, filter), since, upTo: head.version };
  const changes = await changesSince(ctx.services.store.read, { ...wanted, limit: limit + 1 });
  const first = changes[limit];
  if (!first) return { version: head.version, changes };
  // Cut between versions: half of one must never look like the whole of it.
  const cut = first.policy_version;
  const whole = changes.filter(({ policy_version }) => policy_version < cut);
  const last = whole.at(-1);
  if (last) return { version: last.policy_version, changes: whole };
  const ceiling = ctx.services.settings.snapshot_max_keys;
  const one = await changesSince(ctx.services.store.read, { ...wanted, upTo: cut, limit: ceiling + 1 });
  return one.length > ceiling ? null : { version: cut, changes: one };
}

function deltaPage(
  ctx: Ctx,
  head: Head,
  filter: Filter,
  { since, version, changes }: Told & { since: number },
  staleAt: number,
): Page {
  const entries = changes.map(({ entry }) => entry).join(",");
  const text = `${opening(ctx, head, filter, "policy_delta", { since, version })},"changes":[${entries}]}`;
  return pageOf(tagOf("delta", head, filter, version), [Buffer.from(text)], staleAt);
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

async function buildSnapshot(ctx: Ctx, head: Head, filter: Filter, start: Cursor, limit: number): Promise<Page> {
  const { services } = ctx;
  const tag = tagOf("snap", head, filter, start.version);
  const open = opening(ctx, head, filter, "policy_snapshot", { version: start.version });
  const entries = head.deleted ? NO_KEYS : await readKeys(ctx, head, filter, start.after, limit);
  const next = entries.more
    ? writeCursor(services, head.project_id, filter.segment, { ...start, after: entries.last })
    : null;
  const chunks = [Buffer.from(`${open},"keys":[`), ...entries.chunks];
  chunks.push(Buffer.from(`],"next_cursor":${JSON.stringify(next)}}`));
  // The cursor in it grows old with the page.
  const staleAt = Math.min(entries.staleAt, entries.more ? services.clock.now() + TELL_EXPIRED_MS : entries.staleAt);
  return pageOf(tag, chunks, staleAt, entries.more ? entries.last : null);
}

type Keys = { chunks: Buffer[]; more: boolean; last: string; staleAt: number };

const NO_KEYS: Keys = { chunks: [], more: false, last: "", staleAt: Number.POSITIVE_INFINITY };
const COMMA = Buffer.from(",");

async function readKeys(ctx: Ctx, head: Head, filter: Filter, after: string, limit: number): Promise<Keys> {
  const { store, clock } = ctx.services;
  const wanted = { ...narrowing(head, filter), expiredBefore: clock.now() - TELL_EXPIRED_MS };
  const keys: Keys = { ...NO_KEYS, chunks: [], last: after };
  for (let left = limit; left > 0; ) {
    const size = Math.min(left, CHUNK_KEYS);
    const chunk = await snapshotChunk(store.read, { ...wanted, after: keys.last, limit: size });
    if (chunk.n > 0) {
      if (keys.chunks.length > 0) keys.chunks.push(COMMA);
      keys.chunks.push(chunk.entries);
      keys.last = chunk.last_id ?? keys.last;
      if (chunk.first_expiry !== null) keys.staleAt = Math.min(keys.staleAt, chunk.first_expiry + TELL_EXPIRED_MS + 1);
    }
    if (chunk.n < size) return keys;
    left -= chunk.n;
    await new Promise((resolve) => setImmediate(resolve));
  }
  const beyond = await snapshotChunk(store.read, { ...wanted, after: keys.last, limit: 1 });
  return { ...keys, more: beyond.n > 0 };
}
