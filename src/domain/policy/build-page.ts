// Builds the pages of the policy feed as serialised JSON. Every read yields to the event loop: a page may hold 100,000
// keys.
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import type { Ctx } from "../core/context.ts";
import { HOUR_MS } from "../../kernel/durations.ts";
import { CAP } from "../../kernel/policy/capabilities.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { tenantRules } from "../../store/queries/plans.ts";
import {
  changesSince,
  headsByIds,
  snapshotChunk,
  versionChangedAt,
  type Change,
  type Chunk,
} from "../../store/queries/policy.ts";
import type { PolicySelection } from "../../store/queries/policy-params.ts";
import { writeCursor, type Cursor } from "./cursor.ts";
import type { Head } from "./head.ts";
import { cutTagOf, tagOf, variantOf, type Filter } from "./filter.ts";
import type { Page } from "./page-cache.ts";

/** Snapshots keep an expired key for this long, so that its denial can name the reason. */
const KEEP_EXPIRED_MS = 24 * HOUR_MS;
export const DELTA_AGE_MAX_MS = 7 * 24 * HOUR_MS;
/** Keys or changes per read: neither memory nor a turn of the event loop holds a whole page of them. */
export const CHUNK_KEYS = 500;

async function selectionOf({ services }: Ctx, head: Head, filter: Filter): Promise<PolicySelection> {
  const { env, tenants } = filter;
  const { workspace_id, project_id, default_rate_limits: defaults } = head;
  // Read before the keys: rules that come later raise the version beyond the page's.
  const rules = (await tenantRules.first(services.store.read, { workspace_id })) !== undefined;
  return { workspace_id, project_id, env, tenants, defaults, tenantRules: rules, caps: variantOf(head, filter) };
}

/** The JSON up to the list, without the closing brace. */
function jsonHead(ctx: Ctx, head: Head, filter: Filter, object: string, versions: Record<string, number>): string {
  const fields = {
    object,
    workspace_id: head.workspace_id,
    project_id: head.project_id,
    env: filter.env,
    ...versions,
    project_deleted: head.deleted,
    generated_at: formatTimestamp(ctx.services.clock.now()),
  };
  const json = JSON.stringify(fields).slice(0, -1);
  return variantOf(head, filter) & CAP.formats ? `${json},"key_prefixes":${head.key_prefixes}` : json;
}

/**
 * The head with the newest prefixes, because the keys that were read may be newer than the head: no key may arrive
 * before its prefix.
 */
async function withNewPrefixes({ services }: Ctx, head: Head, filter: Filter): Promise<Head> {
  if (!(variantOf(head, filter) & CAP.formats)) return head;
  const [now] = await headsByIds(services.store.read, [head.project_id]);
  return { ...head, key_prefixes: now?.key_prefixes ?? head.key_prefixes };
}

type PageEnd = { staleAt: number; last: string | null; whole: number | null };

function pageOf(tag: string, chunks: Uint8Array[], end: PageEnd): Page {
  const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  return { tag, chunks, encoded: {}, bytes, ...end };
}

/** Sentinel: there is no delta, because it has too many changes or its versions are too old. */
export const NO_DELTA = pageOf("", [], { staleAt: Number.POSITIVE_INFINITY, last: null, whole: 0 });

export async function buildDelta(ctx: Ctx, head: Head, filter: Filter, since: number, limit: number): Promise<Page> {
  const { store, clock } = ctx.services;
  const next = await versionChangedAt.first(store.read, { project_id: head.project_id, version: since + 1 });
  if (!next || next.changed_at < clock.now() - DELTA_AGE_MAX_MS) return NO_DELTA;
  const changes = await changesWithin(ctx, head, filter, since, limit);
  if (!changes) return NO_DELTA;
  const byCaller = changes.isCut && limit < ctx.services.settings.snapshot_max_keys;
  const whole = byCaller ? null : changes.changes.length;
  const staleAt = next.changed_at + DELTA_AGE_MAX_MS + 1;
  const newest = await withNewPrefixes(ctx, head, filter);
  return deltaPage(ctx, newest, filter, { since, ...changes }, { staleAt, last: null, whole });
}

type Changes = { version: number; changes: Change[]; isCut: boolean };

/** Up to `limit` changes within the maximum response size, whole versions only; null if a single version exceeds it. */
async function changesWithin(
  ctx: Ctx,
  head: Head,
  filter: Filter,
  since: number,
  limit: number,
): Promise<Changes | null> {
  const { store, settings } = ctx.services;
  // Not only up to the head: a key that has changed again since the head was read would be left out with its earlier
  // change, and a node would hold this version without it. The next delta repeats what is later than the head.
  const selection = { ...(await selectionOf(ctx, head, filter)), upTo: Number.MAX_SAFE_INTEGER };
  const changes: Change[] = [];
  for (let version = since, bytesLeft = settings.answer_max_bytes; ; ) {
    const size = Math.min(CHUNK_KEYS, limit - changes.length);
    const read = await changesSince(store.read, { ...selection, since: version, limit: size + 1 });
    const fit = countWithin(read.slice(0, size), bytesLeft);
    const first = read[fit];
    if (!first) return { version: head.version, changes: [...changes, ...read], isCut: false };
    // Cut between versions: a partial version must never look complete.
    const whole = read.filter(({ policy_version }) => policy_version < first.policy_version);
    changes.push(...whole);
    const last = changes.at(-1);
    if (!last) return changesOf(ctx, selection, since, Math.min(first.policy_version, head.version));
    if (fit < size || whole.length === 0 || changes.length >= limit)
      return { version: Math.min(last.policy_version, head.version), changes, isCut: true };
    version = last.policy_version;
    bytesLeft -= bytesOf(whole);
    await yieldToEventLoop();
  }
}

/** All changes up to one version, which may be more than a page holds but not more than its ceilings. */
async function changesOf(
  { services: { store, settings } }: Ctx,
  selection: PolicySelection,
  since: number,
  version: number,
): Promise<Changes | null> {
  const ceiling = settings.snapshot_max_keys;
  const changes = await changesSince(store.read, { ...selection, since, upTo: version, limit: ceiling + 1 });
  const fits = changes.length <= ceiling && bytesOf(changes) <= settings.answer_max_bytes;
  return fits ? { version, changes, isCut: true } : null;
}

function bytesOf(changes: readonly Change[]): number {
  return changes.reduce((sum, { entry }) => sum + Buffer.byteLength(entry) + 1, 0);
}

/** How many of the changes fit, from the first on. */
function countWithin(changes: readonly Change[], bytes: number): number {
  let left = bytes;
  const over = changes.findIndex(({ entry }) => (left -= Buffer.byteLength(entry) + 1) < 0);
  return over < 0 ? changes.length : over;
}

function deltaPage(
  ctx: Ctx,
  head: Head,
  filter: Filter,
  { since, version, changes, isCut }: Changes & { since: number },
  end: PageEnd,
): Page {
  const entries = changes.map(({ entry }) => entry).join(",");
  const text = `${jsonHead(ctx, head, filter, "policy_delta", { since, version })},"changes":[${entries}]}`;
  const tag = isCut ? cutTagOf(head, filter, version) : tagOf("delta", head, filter, version);
  return pageOf(tag, [Buffer.from(text)], end);
}

export async function buildSnapshot(ctx: Ctx, head: Head, filter: Filter, start: Cursor, limit: number): Promise<Page> {
  const { services } = ctx;
  const tag = tagOf("snap", head, filter, start.version);
  const entries = head.deleted ? NO_KEYS : await readKeys(ctx, head, filter, start.after, limit);
  const newest = await withNewPrefixes(ctx, head, filter);
  const open = jsonHead(ctx, newest, filter, "policy_snapshot", { version: start.version });
  const next = entries.more ? writeCursor(services, head, filter, { ...start, after: entries.last }) : null;
  const chunks = [Buffer.from(`${open},"keys":[`), ...entries.chunks];
  chunks.push(Buffer.from(`],"next_cursor":${JSON.stringify(next)}}`));
  // The cursor in the page ages with it.
  const staleAt = Math.min(entries.staleAt, entries.more ? services.clock.now() + KEEP_EXPIRED_MS : entries.staleAt);
  const isCut = entries.more && entries.count === limit && limit < services.settings.snapshot_max_keys;
  const whole = isCut ? null : entries.count;
  return pageOf(tag, chunks, { staleAt, last: entries.more ? entries.last : null, whole });
}

type Keys = { chunks: Buffer[]; count: number; more: boolean; last: string; staleAt: number };

const NO_KEYS: Keys = { chunks: [], count: 0, more: false, last: "", staleAt: Number.POSITIVE_INFINITY };
const COMMA = Buffer.from(",");

/** Ends at the limit, or where the next key would exceed the maximum response size. */
async function readKeys(ctx: Ctx, head: Head, filter: Filter, after: string, limit: number): Promise<Keys> {
  const { store, clock, settings } = ctx.services;
  const selection = { ...(await selectionOf(ctx, head, filter)), expiredBefore: clock.now() - KEEP_EXPIRED_MS };
  const keys: Keys = { ...NO_KEYS, chunks: [], last: after };
  let bytesLeft = settings.answer_max_bytes;
  let left = limit;
  for (let size = Math.min(left, CHUNK_KEYS); size > 0; size = Math.min(left, size)) {
    const chunk = await snapshotChunk(store.read, { ...selection, after: keys.last, limit: size });
    if (chunk.entries.length > bytesLeft && (size > 1 || keys.chunks.length > 0)) {
      size >>= 1; // the same keys again, fewer of them
      continue;
    }
    if (chunk.n > 0) addChunk(keys, chunk);
    if (chunk.n < size) return keys;
    left -= chunk.n;
    bytesLeft -= chunk.entries.length + 1;
    await yieldToEventLoop();
  }
  const following = await snapshotChunk(store.read, { ...selection, after: keys.last, limit: 1 });
  return { ...keys, more: following.n > 0 };
}

function addChunk(keys: Keys, { entries, n, last_id, first_expiry }: Chunk): void {
  keys.count += n;
  if (keys.chunks.length > 0) keys.chunks.push(COMMA);
  keys.chunks.push(entries);
  keys.last = last_id ?? keys.last;
  if (first_expiry !== null) keys.staleAt = Math.min(keys.staleAt, first_expiry + KEEP_EXPIRED_MS + 1);
}
