// Builds the pages of the policy feed as serialised JSON. Every read yields to the event loop: a page may hold 100,000 keys.
import type { Ctx } from "../core/context.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { changesSince, snapshotChunk, versionChangedAt, type Change } from "../../store/queries/policy.ts";
import type { PolicySelection } from "../../store/queries/policy-params.ts";
import { writeCursor, type Cursor } from "./cursor.ts";
import type { Head } from "./head.ts";
import { tagOf, type Filter } from "./filter.ts";
import type { Page } from "./page-cache.ts";

const HOUR_MS = 3_600_000;
/** Snapshots keep an expired key for this long, so that its denial can name the reason. */
const KEEP_EXPIRED_MS = 24 * HOUR_MS;
export const DELTA_AGE_MAX_MS = 7 * 24 * HOUR_MS;
/** Keys per read: blocks the event loop for about two milliseconds, not for a whole page. */
export const CHUNK_KEYS = 2_000;

function selectionOf(head: Head, { env, tenants }: Filter): PolicySelection {
  return { project_id: head.project_id, env, tenants, defaults: head.default_rate_limits };
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

/** Sentinel: there is no delta, because it has too many changes or its versions are too old. */
export const NO_DELTA = pageOf("", []);

export async function buildDelta(ctx: Ctx, head: Head, filter: Filter, since: number, limit: number): Promise<Page> {
  const { store, clock } = ctx.services;
  const next = await versionChangedAt.first(store.read, { project_id: head.project_id, version: since + 1 });
  if (!next || next.changed_at < clock.now() - DELTA_AGE_MAX_MS) return NO_DELTA;
  const changes = await changesWithin(ctx, head, filter, since, limit);
  if (!changes) return NO_DELTA;
  return deltaPage(ctx, head, filter, { since, ...changes }, next.changed_at + DELTA_AGE_MAX_MS + 1);
}

type Changes = { version: number; changes: Change[] };

/** Up to `limit` changes, whole versions only; null when a single version exceeds the ceiling. */
async function changesWithin(
  ctx: Ctx,
  head: Head,
  filter: Filter,
  since: number,
  limit: number,
): Promise<Changes | null> {
  const selection = { ...selectionOf(head, filter), since, upTo: head.version };
  const changes = await changesSince(ctx.services.store.read, { ...selection, limit: limit + 1 });
  const first = changes[limit];
  if (!first) return { version: head.version, changes };
  // Cut between versions: a partial version must never look complete.
  const cut = first.policy_version;
  const whole = changes.filter(({ policy_version }) => policy_version < cut);
  const last = whole.at(-1);
  if (last) return { version: last.policy_version, changes: whole };
  const ceiling = ctx.services.settings.snapshot_max_keys;
  const one = await changesSince(ctx.services.store.read, { ...selection, upTo: cut, limit: ceiling + 1 });
  return one.length > ceiling ? null : { version: cut, changes: one };
}

function deltaPage(
  ctx: Ctx,
  head: Head,
  filter: Filter,
  { since, version, changes }: Changes & { since: number },
  staleAt: number,
): Page {
  const entries = changes.map(({ entry }) => entry).join(",");
  const text = `${jsonHead(ctx, head, filter, "policy_delta", { since, version })},"changes":[${entries}]}`;
  return pageOf(tagOf("delta", head, filter, version), [Buffer.from(text)], staleAt);
}

export async function buildSnapshot(ctx: Ctx, head: Head, filter: Filter, start: Cursor, limit: number): Promise<Page> {
  const { services } = ctx;
  const tag = tagOf("snap", head, filter, start.version);
  const open = jsonHead(ctx, head, filter, "policy_snapshot", { version: start.version });
  const entries = head.deleted ? NO_KEYS : await readKeys(ctx, head, filter, start.after, limit);
  const next = entries.more
    ? writeCursor(services, head.project_id, filter.segment, { ...start, after: entries.last })
    : null;
  const chunks = [Buffer.from(`${open},"keys":[`), ...entries.chunks];
  chunks.push(Buffer.from(`],"next_cursor":${JSON.stringify(next)}}`));
  // The cursor in the page ages with it.
  const staleAt = Math.min(entries.staleAt, entries.more ? services.clock.now() + KEEP_EXPIRED_MS : entries.staleAt);
  return pageOf(tag, chunks, staleAt, entries.more ? entries.last : null);
}

type Keys = { chunks: Buffer[]; more: boolean; last: string; staleAt: number };

const NO_KEYS: Keys = { chunks: [], more: false, last: "", staleAt: Number.POSITIVE_INFINITY };
const COMMA = Buffer.from(",");

async function readKeys(ctx: Ctx, head: Head, filter: Filter, after: string, limit: number): Promise<Keys> {
  const { store, clock } = ctx.services;
  const selection = { ...selectionOf(head, filter), expiredBefore: clock.now() - KEEP_EXPIRED_MS };
  const keys: Keys = { ...NO_KEYS, chunks: [], last: after };
  for (let left = limit; left > 0; ) {
    const size = Math.min(left, CHUNK_KEYS);
    const chunk = await snapshotChunk(store.read, { ...selection, after: keys.last, limit: size });
    if (chunk.n > 0) {
      if (keys.chunks.length > 0) keys.chunks.push(COMMA);
      keys.chunks.push(chunk.entries);
      keys.last = chunk.last_id ?? keys.last;
      if (chunk.first_expiry !== null) keys.staleAt = Math.min(keys.staleAt, chunk.first_expiry + KEEP_EXPIRED_MS + 1);
    }
    if (chunk.n < size) return keys;
    left -= chunk.n;
    await new Promise((resolve) => setImmediate(resolve));
  }
  const following = await snapshotChunk(store.read, { ...selection, after: keys.last, limit: 1 });
  return { ...keys, more: following.n > 0 };
}
