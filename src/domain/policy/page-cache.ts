// LRU cache of serialised policy pages, bounded by bytes and by account: all nodes of a fleet request the same pages.
// Concurrent requests for one page share one build. Large pages are kept compressed only, and only if no caller
// chose their length: each length would be another copy.
// bench: feed/snapshot, feed/delta
import type { LargeResponses } from "../../fairness/large-responses.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import { SERVICE_OWNER, type Owner } from "../../fairness/owners.ts";
import { MIB } from "../../kernel/sizes.ts";
import { compress, decompress, ownBytes, type Encoding } from "./page-bytes.ts";

export type Page = {
  /** Names the content: equal tags mean equal policy. */
  readonly tag: string;
  /** Null once only the compressed form is kept. */
  chunks: readonly Uint8Array[] | null;
  readonly encoded: Partial<Record<Encoding, Promise<Uint8Array>>>;
  readonly bytes: number;
  /** The last key id in it, when there are more: `next_cursor` continues after it. */
  readonly last: string | null;
  /**
   * How many keys or changes it has, if it ends by itself or at a bound of the service; null if `max_keys` has cut it.
   */
  readonly countIfUncut: number | null;
  /** When to rebuild it: a key in it will then have been expired for too long. */
  readonly staleAt: number;
};

/** Smaller pages are sent uncompressed. */
const COMPRESS_MIN = 1_024;
const LARGE = 256 * 1024;
/** Large pages are compressed after this long without a build: earlier, it would delay the next page. */
const IDLE_MS = 100;
/** Maximum of uncompressed bytes that await compression. Beyond it the oldest pages are evicted and rebuilt later. */
const UNCOMPRESSED_BYTES_MAX = 4 * MIB;
/** Maximum of pages that await compression, including evicted ones. */
const UNCOMPRESSED_MAX = 32;
/**
 * Of an entry beside its bytes and key. Its objects and the head of its response take less, but each garbage collection
 * marks them, so there are no more than eight thousand.
 */
const ENTRY_OVERHEAD = 8 * 1024;

type Entry = { readonly page: Page; readonly owner: Owner; bytes: number };
type Build = () => Promise<Page>;

/**
 * `key` names the page as requested, `uncutKey` the one that ends by itself: it serves callers who accept as many keys.
 */
export type Wanted = { readonly key: string; readonly uncutKey: string; readonly limit: number; readonly owner: Owner };

export class PageCache {
  readonly #entries = new Map<string, Entry>();
  /** The keys of an owner's pages, the one that was requested longest ago first. */
  readonly #keysOf = new Map<string, Set<string>>();
  /** Cache hits and misses, for /metrics. */
  readonly reads = { hits: 0, misses: 0 };
  readonly #building = new Map<string, Promise<Page>>();
  /** Pages whose bytes are counted. An evicted page may still be compressed, but no longer counts. */
  readonly #counted = new WeakMap<Page, Entry>();
  /** Large pages still to be compressed, oldest first; `page` is null once it was evicted. */
  readonly #uncompressed = new Map<string, { page: Page | null; owner: Owner; build: Build }>();
  /** Pages that are kept compressed, decompressed for all who are being sent one. */
  readonly #unpacked = new WeakMap<Page, WeakRef<readonly Uint8Array[]>>();
  readonly #unpacking = new Map<Page, Promise<readonly Uint8Array[]>>();
  readonly #ledger: Ledger;
  readonly #largeResponses: LargeResponses;
  #idleTimer: NodeJS.Timeout | undefined;
  #compressing = false;

  /** `ledger` bounds the cached bytes, `largeResponses` what is built or decompressed at the same time. */
  constructor(ledger: Ledger, largeResponses: LargeResponses) {
    this.#ledger = ledger;
    this.#largeResponses = largeResponses;
  }

  get bytes(): number {
    return this.#ledger.used;
  }

  /** The page, built if it is not cached. */
  async get(wanted: Wanted, now: number, build: Build): Promise<Page> {
    const [key, entry] = this.#find(wanted, now) ?? [];
    if (key !== undefined && entry) {
      this.#markRequested(key, entry.owner);
      this.reads.hits++;
      return entry.page;
    }
    this.reads.misses++;
    return this.#building.get(wanted.key) ?? this.#build(wanted, build);
  }

  /** Builds a page that will be requested soon, after the current requests were served. */
  prefetch(wanted: Wanted, now: number, build: Build): void {
    setImmediate(() => {
      if (this.#find(wanted, now) || this.#building.has(wanted.key)) return;
      this.#build(wanted, build).catch(() => {}); // a request for the page reports the error
    });
  }

  #find({ key, uncutKey, limit }: Wanted, now: number): [key: string, entry: Entry] | undefined {
    const uncut = this.#entries.get(uncutKey);
    if (uncut && now < uncut.page.staleAt && (uncut.page.countIfUncut ?? 0) <= limit) return [uncutKey, uncut];
    const entry = this.#entries.get(key);
    return entry && now < entry.page.staleAt ? [key, entry] : undefined;
  }

  #build({ key, uncutKey, owner }: Wanted, build: Build, compressLater = true): Promise<Page> {
    const building = this.#largeResponses
      .whileBuilding(owner, build)
      .then((page) =>
        this.#insert(page.countIfUncut === null ? key : uncutKey, page, owner, compressLater ? build : null),
      )
      .finally(() => this.#building.delete(key));
    this.#building.set(key, building);
    return building;
  }

  /** Whether it is always sent uncompressed. */
  isSmall(page: Page): boolean {
    return page.bytes < COMPRESS_MIN;
  }

  /** The page in this encoding, compressed once; undefined when it is sent uncompressed. */
  encoded(page: Page, encoding: Encoding): Promise<Uint8Array> | undefined {
    if (this.isSmall(page)) return undefined;
    const known = page.encoded[encoding];
    if (known) return known;
    const work = this.plain(page).then((chunks) => compress(chunks, page.bytes, encoding));
    page.encoded[encoding] = work;
    work.then(
      ({ length }) => {
        this.#grow(page, length);
        if (encoding === "zstd" && page.bytes >= LARGE) this.#dropChunks(page);
      },
      () => delete page.encoded[encoding],
    );
    return work;
  }

  /** The uncompressed page. */
  async plain(page: Page): Promise<readonly Uint8Array[]> {
    const known = page.chunks ?? this.#unpacked.get(page)?.deref() ?? this.#unpacking.get(page);
    if (known) return known;
    const owner = this.#counted.get(page)?.owner ?? SERVICE_OWNER; // evicted while it is sent
    const unpacking = this.#largeResponses
      .whileBuilding(owner, async () => [await decompress((await page.encoded.zstd) ?? EMPTY, page.bytes)])
      .finally(() => this.#unpacking.delete(page));
    this.#unpacking.set(page, unpacking);
    const chunks = await unpacking;
    this.#unpacked.set(page, new WeakRef(chunks));
    return chunks;
  }

  #insert(key: string, page: Page, owner: Owner, build: Build | null): Page {
    page.chunks = page.chunks && ownBytes(page.chunks, page.bytes);
    if (page.countIfUncut === null && page.bytes >= LARGE) return page;
    this.#evict(key);
    const entry: Entry = { page, owner, bytes: 0 };
    this.#entries.set(key, entry);
    this.#counted.set(page, entry);
    this.#markRequested(key, owner);
    this.#grow(page, page.bytes + key.length + ENTRY_OVERHEAD);
    if (build && page.bytes >= LARGE) this.#compressLater(key, page, owner, build);
    return page;
  }

  #compressLater(key: string, page: Page, owner: Owner, build: Build): void {
    // Evicted and requested again before the cache was idle: in demand, so compress it now.
    if (this.#uncompressed.delete(key)) {
      this.encoded(page, "zstd")?.catch(() => {});
      return;
    }
    this.#uncompressed.set(key, { page, owner, build });
    this.#trimUncompressed(key);
    this.#idleTimer ??= setTimeout(() => void this.#compressPending(), IDLE_MS).unref();
    this.#idleTimer.refresh();
  }

  /** Evicts the oldest uncompressed pages beyond the bounds, but never the newest. */
  #trimUncompressed(newest: string): void {
    let bytes = 0;
    for (const [key, { page }] of this.#uncompressed) {
      if (page?.encoded.zstd)
        this.#uncompressed.delete(key); // a request has compressed it since
      else bytes += page?.bytes ?? 0;
    }
    for (const [key, candidate] of this.#uncompressed) {
      if (key === newest) return;
      if (bytes > UNCOMPRESSED_BYTES_MAX && candidate.page) {
        bytes -= candidate.page.bytes;
        candidate.page = null;
        this.#evict(key);
      }
      if (this.#uncompressed.size > UNCOMPRESSED_MAX) this.#uncompressed.delete(key);
    }
  }

  /** One after the other. A page that fails stays uncompressed, or is rebuilt by the next request. */
  async #compressPending(): Promise<void> {
    if (this.#compressing) return;
    this.#compressing = true;
    for (const [key, { page, owner, build }] of this.#uncompressed) {
      this.#uncompressed.delete(key);
      try {
        const wanted = { key, uncutKey: key, limit: Number.POSITIVE_INFINITY, owner };
        const current = page ?? (await (this.#building.get(key) ?? this.#build(wanted, build, false)));
        if (this.#counted.has(current)) await this.encoded(current, "zstd");
      } catch {
        // See above.
      }
    }
    this.#compressing = false;
  }

  #dropChunks(page: Page): void {
    if (!page.chunks) return;
    page.chunks = null;
    this.#grow(page, -page.bytes);
  }

  #grow(page: Page, by: number): void {
    const entry = this.#counted.get(page);
    if (!entry) return;
    const { owner } = entry;
    entry.bytes += by;
    if (by > 0) this.#ledger.take(owner, by);
    else this.#ledger.release(owner, -by);
    while (this.#ledger.isOver(owner) && this.#evictOldest(this.#ledger.victimFor(owner, 0) ?? owner));
  }

  #evictOldest({ id }: Owner): boolean {
    const [oldest] = this.#keysOf.get(id) ?? [];
    if (oldest === undefined) return false;
    this.#evict(oldest);
    return true;
  }

  #markRequested(key: string, { id }: Owner): void {
    const keys = this.#keysOf.get(id) ?? new Set();
    keys.delete(key);
    this.#keysOf.set(id, keys.add(key));
  }

  #evict(key: string): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#entries.delete(key);
    const keys = this.#keysOf.get(entry.owner.id);
    keys?.delete(key);
    if (keys?.size === 0) this.#keysOf.delete(entry.owner.id);
    this.#counted.delete(entry.page);
    this.#ledger.release(entry.owner, entry.bytes);
  }
}

const EMPTY = new Uint8Array();
