// Answers of the policy feed, kept serialised: a fleet asks for the same page a thousand times. Bounded by bytes, the
// least recently used goes first; whoever asks for a page that is being built waits for that one. A large page is kept
// compressed only: a hundred thousand keys then take five megabytes instead of thirty.
import { promisify } from "node:util";
import { constants, createGzip, createZstdCompress, zstdDecompress, type Gzip, type ZstdCompress } from "node:zlib";

export type Encoding = "zstd" | "gzip";

export type Page = {
  /** Names the content: equal tags, equal policy. */
  readonly tag: string;
  /** Null once the page is kept compressed only. */
  chunks: readonly Uint8Array[] | null;
  readonly encoded: Partial<Record<Encoding, Promise<Uint8Array>>>;
  readonly bytes: number;
  /** The last key told, when more were left out: `next_cursor` leads on from it. */
  readonly last: string | null;
  /** From then on a key in it has been expired for too long to be told of. */
  readonly staleAt: number;
};

const BYTES_MAX = 64 * 1024 * 1024;
/** Compressing less than this saves nothing on the wire. */
const COMPRESS_MIN = 1_024;
const LARGE = 256 * 1024;
/** Large pages are compressed when none was built for so long: before, it would hold up whoever waits for the next one. */
const QUIET_MS = 100;
/** So many bytes wait for that. The oldest of more are let go, and built again then: all at once would be the snapshot's size. */
const WAITING_BYTES_MAX = 4 * 1024 * 1024;
/** So many pages wait for that, built or not. */
const WAITING_MAX = 32;
/** What a kept page takes besides its bytes and its key: the answer made of it, its place in the lists. Measured. */
const BESIDES = 2 * 1024;

/** Bytes that a compressor hands over at a time: each piece costs a turn of the event loop. */
const PIECE = 64 * 1024;

const compressors: Record<Encoding, (bytes: number) => Gzip | ZstdCompress> = {
  zstd: (bytes) =>
    createZstdCompress({
      chunkSize: PIECE,
      pledgedSrcSize: bytes,
      params: { [constants.ZSTD_c_compressionLevel]: 1 },
    }),
  gzip: () => createGzip({ chunkSize: PIECE, level: 1 }),
};

/** Chunk by chunk: joined first, a page would be in memory twice. */
async function squeeze(chunks: readonly Uint8Array[], bytes: number, encoding: Encoding): Promise<Uint8Array> {
  const compressor = compressors[encoding](bytes);
  for (const chunk of chunks) compressor.write(chunk);
  compressor.end();
  const pieces: Uint8Array[] = [];
  for await (const piece of compressor) pieces.push(piece as Uint8Array);
  return owned(Buffer.concat(pieces));
}

/** A short Buffer is a view of a slab that it shares with others: kept, it would keep all of that. */
function owned(bytes: Uint8Array): Uint8Array {
  return bytes.buffer.byteLength === bytes.length ? bytes : new Uint8Array(bytes);
}

type Kept = { page: Page; bytes: number };
type Build = () => Promise<Page>;

export class PageCache {
  readonly #kept = new Map<string, Kept>();
  /** How often a page was ready, and how often it was not. */
  readonly reads = { hits: 0, misses: 0 };
  readonly #building = new Map<string, Promise<Page>>();
  /** The pages that are counted: what happens to a page that was dropped is nobody's to count. */
  readonly #counted = new WeakMap<Page, Kept>();
  /** Large pages not compressed yet, oldest first; null stands for one that was let go. */
  readonly #waiting = new Map<string, { page: Page | null; build: Build }>();
  readonly #bytesMax: number;
  #bytes = 0;
  #quiet: NodeJS.Timeout | undefined;
  #compressing = false;

  constructor(bytesMax = BYTES_MAX) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The page known by this key, built if it must be. */
  get(key: string, now: number, build: Build): Page | Promise<Page> {
    const kept = this.#kept.get(key);
    if (kept && now < kept.page.staleAt) {
      this.#kept.delete(key);
      this.#kept.set(key, kept);
      this.reads.hits++;
      return kept.page;
    }
    this.reads.misses++;
    return this.#building.get(key) ?? this.#build(key, build);
  }

  /** Builds the page for somebody who will ask for it soon, once those who wait now have been answered. */
  prepare(key: string, now: number, build: Build): void {
    setImmediate(() => {
      const kept = this.#kept.get(key);
      if ((kept && now < kept.page.staleAt) || this.#building.has(key)) return;
      this.#build(key, build).catch(() => {}); // whoever asks for it meets what is wrong
    });
  }

  /** `soon`: a large one is compressed when it is quiet. */
  #build(key: string, build: Build, soon = true): Promise<Page> {
    const building = build()
      .then((page) => this.#keep(key, page, soon ? build : null))
      .finally(() => this.#building.delete(key));
    this.#building.set(key, building);
    return building;
  }

  /** Whether it is sent as it is, whatever the caller takes. */
  isSmall(page: Page): boolean {
    return page.bytes < COMPRESS_MIN;
  }

  /** The page's bytes in this encoding, made once; undefined when it is better sent as it is. */
  encoded(page: Page, encoding: Encoding): Promise<Uint8Array> | undefined {
    if (this.isSmall(page)) return undefined;
    const known = page.encoded[encoding];
    if (known) return known;
    const work = this.plain(page).then((chunks) => squeeze(chunks, page.bytes, encoding));
    page.encoded[encoding] = work;
    work.then(
      ({ length }) => {
        this.#grow(page, length);
        if (encoding === "zstd" && page.bytes >= LARGE) this.#dropPlain(page);
      },
      () => delete page.encoded[encoding],
    );
    return work;
  }

  /** The page's bytes as they are. */
  async plain(page: Page): Promise<readonly Uint8Array[]> {
    if (page.chunks) return page.chunks;
    return [await promisify(zstdDecompress)((await page.encoded.zstd) ?? NOTHING, { chunkSize: page.bytes })];
  }

  #keep(key: string, page: Page, build: Build | null): Page {
    this.#drop(key);
    page.chunks = page.chunks?.map(owned) ?? null;
    const kept: Kept = { page, bytes: 0 };
    this.#kept.set(key, kept);
    this.#counted.set(page, kept);
    this.#grow(page, page.bytes + key.length + BESIDES);
    if (build && page.bytes >= LARGE) this.#compressSoon(key, page, build);
    return page;
  }

  #compressSoon(key: string, page: Page, build: Build): void {
    // Let go, and asked for again before there was a quiet moment: it is wanted by many.
    if (this.#waiting.delete(key)) {
      this.encoded(page, "zstd")?.catch(() => {});
      return;
    }
    this.#waiting.set(key, { page, build });
    this.#letGo(key);
    this.#quiet ??= setTimeout(() => void this.#compressWaiting(), QUIET_MS).unref();
    this.#quiet.refresh();
  }

  /** All but the newest, as far as there are too many. */
  #letGo(newest: string): void {
    let bytes = 0;
    for (const [key, { page }] of this.#waiting) {
      if (page?.encoded.zstd)
        this.#waiting.delete(key); // somebody took it compressed
      else bytes += page?.bytes ?? 0;
    }
    for (const [key, waiting] of this.#waiting) {
      if (key === newest) return;
      if (bytes > WAITING_BYTES_MAX && waiting.page) {
        bytes -= waiting.page.bytes;
        waiting.page = null;
        this.#drop(key);
      }
      if (this.#waiting.size > WAITING_MAX) this.#waiting.delete(key);
    }
  }

  /** One after the other. Should one fail, it stays as it is, or is built for whoever asks for it next. */
  async #compressWaiting(): Promise<void> {
    if (this.#compressing) return;
    this.#compressing = true;
    for (const [key, { page, build }] of this.#waiting) {
      this.#waiting.delete(key);
      try {
        const whole = page ?? (await (this.#building.get(key) ?? this.#build(key, build, false)));
        if (this.#counted.has(whole)) await this.encoded(whole, "zstd");
      } catch {
        // As it was.
      }
    }
    this.#compressing = false;
  }

  #dropPlain(page: Page): void {
    if (!page.chunks) return;
    page.chunks = null;
    this.#grow(page, -page.bytes);
  }

  #grow(page: Page, by: number): void {
    const kept = this.#counted.get(page);
    if (!kept) return;
    kept.bytes += by;
    this.#bytes += by;
    for (const key of this.#kept.keys()) {
      if (this.#bytes <= this.#bytesMax) return;
      this.#drop(key);
    }
  }

  #drop(key: string): void {
    const kept = this.#kept.get(key);
    if (!kept) return;
    this.#kept.delete(key);
    this.#counted.delete(kept.page);
    this.#bytes -= kept.bytes;
  }
}

const NOTHING = new Uint8Array();
