// Builds the pages of the policy feed as serialised JSON. Every read yields to the event loop: a page may hold 100,000
// keys.
import { forPieces, yieldToEventLoop } from "../../platform/event-loop.ts";
import type { Ctx, Services } from "../core/context.ts";
import { DAY_MS } from "../../kernel/durations.ts";
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
import type { PolicySelection } from "../../store/queries/policy-entries.ts";
import { writeCursor, type Cursor } from "./cursor.ts";
import type { Head } from "./head.ts";
import { cutTagOf, tagOf, variantOf, type Filter } from "./filter.ts";
import type { Page } from "./page-cache.ts";

/** Snapshots keep an expired key for this long, so that its denial can name the reason. */
const KEEP_EXPIRED_MS = DAY_MS;
export const DELTA_AGE_MAX_MS = 7 * DAY_MS;
/** Keys or changes per read: neither memory nor a turn of the event loop holds a whole page of them. */
export const CHUNK_KEYS = 500;
/** Entries that are joined at once. */
const ENTRIES_JOINED = 50;

type PageEnd = { staleAt: number; last: string | null; countIfUncut: number | null };
type Changes = { version: number; changes: Change[]; isCut: boolean };
type Keys = { chunks: Buffer[]; count: number; more: boolean; last: string; staleAt: number };

const NO_KEYS: Keys = { chunks: [], count: 0, more: false, last: "", staleAt: Number.POSITIVE_INFINITY };
const COMMA = Buffer.from(",");

function pageOf(tag: string, chunks: Uint8Array[], end: PageEnd): Page {
  const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  return { tag, chunks, encoded: {}, bytes, ...end };
}

/** Sentinel: there is no delta, because it has too many changes or its versions are too old. */
export const NO_DELTA = pageOf("", [], { staleAt: Number.POSITIVE_INFINITY, last: null, countIfUncut: 0 });

/** Builds the pages of one project's policy at one head. */
export class PageBuilder {
  readonly #services: Services;
  readonly #head: Head;
  readonly #filter: Filter;

  constructor({ services }: Ctx, head: Head, filter: Filter) {
    this.#services = services;
    this.#head = head;
    this.#filter = filter;
  }

  async delta(since: number, limit: number): Promise<Page> {
    const { store, clock, settings } = this.#services;
    const { project_id } = this.#head;
    const next = await versionChangedAt.first(store.read, { project_id, version: since + 1 });
    if (!next || next.changed_at < clock.now() - DELTA_AGE_MAX_MS) return NO_DELTA;
    const found = await this.#changesWithin(since, limit);
    if (!found) return NO_DELTA;
    const { version, changes, isCut } = found;
    const countIfUncut = isCut && limit < settings.snapshot_max_keys ? null : changes.length;
    const staleAt = next.changed_at + DELTA_AGE_MAX_MS + 1;
    const open = await this.#open("policy_delta", { since, version });
    const chunks = [Buffer.from(`${open},"changes":[`), ...(await joined(changes)), Buffer.from("]}")];
    const tag = isCut ? cutTagOf(this.#head, this.#filter, version) : tagOf("delta", this.#head, this.#filter, version);
    return pageOf(tag, chunks, { staleAt, last: null, countIfUncut });
  }

  async snapshot(start: Cursor, limit: number): Promise<Page> {
    const { clock, settings } = this.#services;
    const tag = tagOf("snap", this.#head, this.#filter, start.version);
    const keys = this.#head.deleted ? NO_KEYS : await this.#readKeys(start.after, limit);
    const { more, count, last } = keys;
    const open = await this.#open("policy_snapshot", { version: start.version });
    const next = more ? writeCursor(this.#services, this.#head, this.#filter, { ...start, after: last }) : null;
    const chunks = [Buffer.from(`${open},"keys":[`), ...keys.chunks];
    chunks.push(Buffer.from(`],"next_cursor":${JSON.stringify(next)}}`));
    // The cursor in the page ages with it.
    const staleAt = more ? Math.min(keys.staleAt, clock.now() + KEEP_EXPIRED_MS) : keys.staleAt;
    const isCut = more && count === limit && limit < settings.snapshot_max_keys;
    return pageOf(tag, chunks, { staleAt, last: more ? last : null, countIfUncut: isCut ? null : count });
  }

  async #selection(): Promise<PolicySelection> {
    const { env, tenants } = this.#filter;
    const { workspace_id, project_id, default_rate_limits: defaults } = this.#head;
    // Read before the keys: rules that come later raise the version beyond the page's.
    const rules = (await tenantRules.first(this.#services.store.read, { workspace_id })) !== undefined;
    const caps = variantOf(this.#head, this.#filter);
    return { workspace_id, project_id, env, tenants, defaults, tenantRules: rules, caps };
  }

  /**
   * The JSON up to the list, without the closing brace. Call it after the keys were read: they may be newer than the
   * head, and no key may arrive before its prefix.
   */
  async #open(object: string, versions: Record<string, number>): Promise<string> {
    const { workspace_id, project_id, deleted, key_prefixes } = this.#head;
    const { store, clock } = this.#services;
    const hasPrefixes = variantOf(this.#head, this.#filter) & CAP.formats;
    const [latest] = hasPrefixes ? await headsByIds(store.read, [project_id]) : [];
    const fields = {
      object,
      workspace_id,
      project_id,
      env: this.#filter.env,
      ...versions,
      project_deleted: deleted,
      generated_at: formatTimestamp(clock.now()),
    };
    const json = JSON.stringify(fields).slice(0, -1);
    return hasPrefixes ? `${json},"key_prefixes":${latest?.key_prefixes ?? key_prefixes}` : json;
  }

  /** Up to `limit` changes within the maximum response size, whole versions only; null if one version exceeds it. */
  async #changesWithin(since: number, limit: number): Promise<Changes | null> {
    const { store, settings } = this.#services;
    const head = this.#head;
    // Not only up to the head: a key that has changed again since the head was read would be left out with its earlier
    // change, and a node would hold this version without it. The next delta repeats what is later than the head.
    const selection = { ...(await this.#selection()), upTo: Number.MAX_SAFE_INTEGER };
    const changes: Change[] = [];
    for (let version = since, bytesLeft = settings.answer_max_bytes; ; ) {
      const size = Math.min(CHUNK_KEYS, limit - changes.length);
      const read = await changesSince(store.read, { ...selection, since: version, limit: size + 1 });
      const fit = countWithin(read.slice(0, size), bytesLeft);
      const first = read[fit];
      if (!first) return { version: head.version, changes: [...changes, ...read], isCut: false };
      // Cut between versions: a partial version must never look complete.
      const complete = read.filter(({ policy_version }) => policy_version < first.policy_version);
      changes.push(...complete);
      const last = changes.at(-1);
      if (!last) return this.#changesOf(selection, since, Math.min(first.policy_version, head.version));
      if (fit < size || complete.length === 0 || changes.length >= limit)
        return { version: Math.min(last.policy_version, head.version), changes, isCut: true };
      version = last.policy_version;
      bytesLeft -= bytesOf(complete);
      await yieldToEventLoop();
    }
  }

  /** All changes up to one version, which may be more than a page holds but not more than its ceilings. */
  async #changesOf(selection: PolicySelection, since: number, version: number): Promise<Changes | null> {
    const { store, settings } = this.#services;
    const ceiling = settings.snapshot_max_keys;
    const changes = await changesSince(store.read, { ...selection, since, upTo: version, limit: ceiling + 1 });
    const fits = changes.length <= ceiling && bytesOf(changes) <= settings.answer_max_bytes;
    return fits ? { version, changes, isCut: true } : null;
  }

  /** Ends at the limit, or if the next key would exceed the maximum response size. */
  async #readKeys(after: string, limit: number): Promise<Keys> {
    const { store, clock, settings } = this.#services;
    const selection = { ...(await this.#selection()), expiredBefore: clock.now() - KEEP_EXPIRED_MS };
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
}

/** Their entries with commas in between. */
async function joined(changes: readonly Change[]): Promise<Buffer[]> {
  const chunks: Buffer[] = [];
  await forPieces(changes, ENTRIES_JOINED, async (some) => {
    if (chunks.length > 0) chunks.push(COMMA);
    const parts = some.flatMap(({ entry }, i) => {
      const bytes = typeof entry === "string" ? Buffer.from(entry) : entry;
      return i === 0 ? [bytes] : [COMMA, bytes];
    });
    chunks.push(Buffer.concat(parts));
  });
  return chunks;
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

function addChunk(keys: Keys, { entries, n, last_id, first_expiry }: Chunk): void {
  keys.count += n;
  if (keys.chunks.length > 0) keys.chunks.push(COMMA);
  keys.chunks.push(entries);
  keys.last = last_id ?? keys.last;
  if (first_expiry !== null) keys.staleAt = Math.min(keys.staleAt, first_expiry + KEEP_EXPIRED_MS + 1);
}
