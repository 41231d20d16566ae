// The page cache: bounded by bytes, one build per page, and the same bytes in every encoding.
import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { PageCache, type Page, type Wanted } from "../../../src/domain/policy/page-cache.ts";
import { LargeResponses } from "../../../src/fairness/large-responses.ts";
import { Ledger } from "../../../src/fairness/ledger.ts";
import { cellOwner } from "../../../src/fairness/owners.ts";
import { unboundedLedger } from "../../../harness/ledgers.ts";

function page(tag: string, bytes: number, staleAt = Number.POSITIVE_INFINITY): Page {
  const chunks = [Buffer.alloc(bytes - 1, tag), Buffer.from("!")];
  return { tag, chunks, encoded: {}, bytes, last: null, countIfUncut: 0, staleAt };
}

const owner = cellOwner("w", "live");
const wanted = (key: string, more: Partial<Wanted> = {}): Wanted => ({ key, uncutKey: key, limit: 9, owner, ...more });

function cacheOf(bound = 64 * 1024 * 1024, share = bound): PageCache {
  const unbounded = unboundedLedger();
  return new PageCache(new Ledger({ bound, share, shareOf: "account" }), new LargeResponses(unbounded));
}

/** Of an entry beside its bytes and key. */
const ENTRY_OVERHEAD = 8_192;

const text = async (pages: PageCache, from: Page): Promise<string> => Buffer.concat(await pages.plain(from)).toString();

describe("PageCache", () => {
  it("builds a page once for concurrent requests", async () => {
    const pages = cacheOf();
    let built = 0;
    const ask = async (): Promise<Page> => pages.get(wanted("k"), 0, async () => page(`a${++built}`, 10));
    const all = await Promise.all([ask(), ask(), ask()]);
    expect([built, new Set(all).size]).toEqual([1, 1]);
    expect(await ask()).toBe(all[0]);
    expect(pages.reads).toEqual({ hits: 1, misses: 3 });
  });

  it("builds a page again after a failed build, and when it is stale", async () => {
    const pages = cacheOf();
    await expect(pages.get(wanted("k"), 0, () => Promise.reject(new Error("no")))).rejects.toThrow("no");
    const first = await pages.get(wanted("k"), 0, async () => page("a", 10, 5));
    expect(await pages.get(wanted("k"), 4, async () => page("b", 10))).toBe(first);
    expect((await pages.get(wanted("k"), 5, async () => page("b", 10))).tag).toBe("b");
  });

  it("prefetches a page once, after the current turn, unless it is cached", async () => {
    const pages = cacheOf();
    let built = 0;
    const build = async (): Promise<Page> => page(`a${++built}`, 10);
    pages.prefetch(wanted("k"), 0, build);
    pages.prefetch(wanted("k"), 0, build);
    expect(built).toBe(0);
    await new Promise((resolve) => setImmediate(resolve));
    expect([(await pages.get(wanted("k"), 0, build)).tag, built]).toEqual(["a1", 1]);
    pages.prefetch(wanted("k"), 0, build);
    await new Promise((resolve) => setImmediate(resolve));
    expect(built).toBe(1);
    expect((await pages.get(wanted("k"), 0, build)).tag).toBe("a1");
    expect(pages.reads).toEqual({ hits: 2, misses: 0 });
  });

  it("builds a page on request after a failed prefetch", async () => {
    const pages = cacheOf();
    pages.prefetch(wanted("k"), 0, () => Promise.reject(new Error("no")));
    await new Promise((resolve) => setImmediate(resolve));
    expect((await pages.get(wanted("k"), 0, async () => page("a", 10))).tag).toBe("a");
  });

  it("stays within its byte limit and evicts the least recently used page", async () => {
    const pages = cacheOf(350 + 3 * ENTRY_OVERHEAD);
    for (const key of ["a", "b", "c"]) await pages.get(wanted(key), 0, async () => page(key, 100));
    await pages.get(wanted("a"), 0, async () => page("never", 1));
    await pages.get(wanted("d"), 0, async () => page("d", 100));
    expect(pages.bytes).toBeLessThanOrEqual(350 + 3 * ENTRY_OVERHEAD);
    expect((await pages.get(wanted("a"), 0, async () => page("again", 100))).tag).toBe("a");
    expect((await pages.get(wanted("b"), 0, async () => page("again", 100))).tag).toBe("again");
  });

  it("keeps a large page compressed only, and returns the same bytes in every encoding", async () => {
    const pages = cacheOf();
    const large = await pages.get(wanted("k"), 0, async () => page("x", 300_000));
    const before = await text(pages, large);
    const zstd = await pages.encoded(large, "zstd");
    expect(large.chunks).toBeNull();
    expect(pages.bytes).toBeLessThan(20_000);
    expect((await text(pages, large)) === before).toBe(true);
    expect(zstdDecompressSync(zstd ?? Buffer.alloc(0)).toString() === before).toBe(true);
    expect(gunzipSync((await pages.encoded(large, "gzip")) ?? Buffer.alloc(0)).toString() === before).toBe(true);
  });

  it("compresses large pages when idle, not between builds", async () => {
    const pages = cacheOf();
    const build = async (key: string) => pages.get(wanted(key), 0, async () => page(key, 300_000));
    const built = [await build("a"), await build("b")];
    expect(built.map(({ encoded }) => encoded.zstd)).toEqual([undefined, undefined]);
    await expect.poll(() => built.every(({ chunks }) => chunks === null)).toBe(true);
    expect(pages.bytes).toBeLessThan(20_000);
    const later = await build("c");
    await expect.poll(() => later.chunks === null).toBe(true);
  });

  const MIB = 1024 * 1024;
  /** A cache that records every page it builds. */
  function recordingCache(bytes: number) {
    const pages = cacheOf();
    const built: Page[] = [];
    const build = (key: string) => async (): Promise<Page> => {
      built.push(page(key, bytes));
      return built.at(-1) as Page;
    };
    return { pages, built, ask: async (key: string): Promise<Page> => pages.get(wanted(key), 0, build(key)) };
  }
  const tags = (built: readonly Page[]): string => built.map(({ tag }) => tag).join("");

  it("keeps at most 4 MiB uncompressed: evicts the oldest and rebuilds them when idle", async () => {
    const { pages, built, ask } = recordingCache(1.5 * MIB);
    for (const key of "abcd") await ask(key);
    expect(pages.bytes).toBeLessThan(4 * MIB);
    expect(tags(built)).toBe("abcd");
    await expect.poll(() => tags(built)).toBe("abcdab");
    await expect.poll(() => built.slice(2).every(({ chunks }) => chunks === null)).toBe(true);
    for (const key of "abcd") expect((await text(pages, await ask(key))).startsWith(key.repeat(9))).toBe(true);
    expect(tags(built)).toBe("abcdab"); // all are cached by now
    expect(pages.bytes).toBeLessThan(MIB);
  });

  it("compresses an evicted page at once when it is requested again before the cache is idle", async () => {
    const { built, ask } = recordingCache(1.5 * MIB);
    for (const key of "abc") await ask(key);
    const again = await ask("a");
    expect(again.encoded.zstd).toBeDefined();
    await again.encoded.zstd;
    expect(await ask("a")).toBe(again);
    expect(tags(built)).toBe("abca");
  });

  it("does not evict a page that was requested compressed", async () => {
    const { pages, built, ask } = recordingCache(1.5 * MIB);
    for (const key of "abcdef") await pages.encoded(await ask(key), "zstd");
    for (const key of "abcdef") expect((await ask(key)).chunks).toBeNull();
    expect(tags(built)).toBe("abcdef");
  });

  it("keeps a single page above that limit until it is compressed", async () => {
    const { built, ask } = recordingCache(5 * MIB);
    const large = await ask("a");
    await expect.poll(() => large.chunks === null).toBe(true);
    expect(tags(built)).toBe("a");
  });

  it("rebuilds at most 32 pages", async () => {
    const { built, ask } = recordingCache(MIB / 2);
    for (let i = 0; i < 60; i++) await ask(String.fromCharCode(0x40 + i));
    const first = built.length;
    await expect.poll(() => built.slice(-8).every(({ chunks }) => chunks === null)).toBe(true);
    expect(built.length - first).toBe(32 - 8);
  });

  it("can still send a page that was evicted meanwhile", async () => {
    const pages = cacheOf(1_000);
    const evicted = await pages.get(wanted("k"), 0, async () => page("x", 300_000));
    await pages.encoded(evicted, "zstd");
    expect(pages.bytes).toBe(0);
    expect((await text(pages, evicted)).length).toBe(300_000);
  });

  it("holds 64 MiB by default, including the overhead of each entry", async () => {
    const pages = cacheOf();
    const small = {
      tag: "t",
      chunks: [],
      encoded: {},
      bytes: 200 * 1024,
      last: null,
      countIfUncut: 0,
      staleAt: Infinity,
    };
    for (let i = 100; i < 500; i++) {
      await pages.get(wanted(`k${i}`), 0, async () => ({ ...small }));
      if (i === 100) expect(pages.bytes).toBe(small.bytes + 4 + ENTRY_OVERHEAD);
    }
    expect(pages.bytes).toBe(315 * (small.bytes + 4 + ENTRY_OVERHEAD));
    expect(64 * 1024 * 1024 - pages.bytes).toBeLessThan(small.bytes);
  });

  it("copies short buffers, which would keep a pool of Node.js alive", async () => {
    const pages = cacheOf();
    const chunks = ["x".repeat(2_000), "y"].map((part) => Buffer.from(part));
    const cached = await pages.get(wanted("k"), 0, async () => ({ ...page("t", 2_001), chunks }));
    const bytes = [...(cached.chunks ?? []), await pages.encoded(cached, "zstd"), await pages.encoded(cached, "gzip")];
    for (const each of bytes) expect(each?.buffer.byteLength).toBe(each?.length);
    expect(await text(pages, cached)).toBe(`${"x".repeat(2_000)}y`);
  });

  it("holds at most thousands of small deltas, because each has overhead", async () => {
    const pages = cacheOf();
    for (let i = 0; i < 50_000; i++) await pages.get(wanted(`k${i}`), 0, async () => page("d", 300));
    const { misses } = pages.reads;
    for (const i of [0, 49_999]) await pages.get(wanted(`k${i}`), 0, async () => page("d", 300));
    expect(pages.reads.misses - misses).toBe(1); // the first was evicted, the last is cached
  });

  it("counts each encoding once, and a rebuilt page instead of the old one", async () => {
    const pages = cacheOf();
    const first = await pages.get(wanted("k"), 0, async () => page("a", 2_000, 5));
    const gzip = await pages.encoded(first, "gzip");
    expect(pages.bytes).toBe(2_001 + ENTRY_OVERHEAD + (gzip?.length ?? 0));
    await pages.encoded(first, "gzip");
    expect(pages.bytes).toBe(2_001 + ENTRY_OVERHEAD + (gzip?.length ?? 0));
    await pages.get(wanted("k"), 5, async () => page("b", 3_000));
    expect(pages.bytes).toBe(3_001 + ENTRY_OVERHEAD);
    await pages.encoded(first, "zstd"); // evicted: no longer counted
    expect(pages.bytes).toBe(3_001 + ENTRY_OVERHEAD);
  });

  it("compresses from 1 KiB on, and keeps only the compressed form from 256 KiB on", async () => {
    const pages = cacheOf();
    expect(pages.encoded(page("x", 1_023), "zstd")).toBeUndefined();
    expect(zstdDecompressSync((await pages.encoded(page("x", 1_024), "zstd")) ?? Buffer.alloc(0))).toHaveLength(1_024);
    const [below, at] = await Promise.all(
      [256 * 1024 - 1, 256 * 1024].map(async (bytes) => pages.get(wanted(`${bytes}`), 0, async () => page("x", bytes))),
    );
    for (const each of [below!, at!]) await pages.encoded(each, "zstd");
    expect([below!.chunks === null, at!.chunks === null]).toEqual([false, true]);
  });
});

describe("pages of several lengths and owners", () => {
  const large = (tag: string, countIfUncut: number | null): Page => ({ ...page(tag, 300_000), countIfUncut });

  it("a page that no caller has cut serves every caller who accepts as many keys", async () => {
    const pages = cacheOf();
    const ask = async (limit: number, tag: string, countIfUncut: number | null): Promise<string> =>
      (await pages.get(wanted(`k:${limit}`, { uncutKey: "k", limit }), 0, async () => large(tag, countIfUncut))).tag;
    expect(await ask(50, "all", 40)).toBe("all");
    expect(await ask(60, "never", 40)).toBe("all");
    expect(await ask(40, "never", 40)).toBe("all");
    expect(await ask(39, "cut", null)).toBe("cut");
  });

  it("a large page that a caller has cut is not kept: each length would be another copy", async () => {
    const pages = cacheOf();
    for (const limit of [1, 2, 3])
      await pages.get(wanted(`k:${limit}`, { uncutKey: "k", limit }), 0, async () => large("cut", null));
    expect(pages.bytes).toBe(0);
    await pages.get(wanted("small", { uncutKey: "k" }), 0, async () => ({ ...page("cut", 100), countIfUncut: null }));
    expect(pages.bytes).toBeGreaterThan(0);
  });

  it("an account evicts its own pages at its share, and the largest account's at the bound", async () => {
    const pages = cacheOf(4 * 16_000, 2 * 16_000);
    const put = async (account: string, key: string): Promise<Page> =>
      pages.get(wanted(key, { owner: cellOwner(account, "live") }), 0, async () => page(key[0] ?? "", 7_000));
    const kept = async (...keys: string[]): Promise<boolean[]> =>
      Promise.all(keys.map(async (key) => (await pages.get(wanted(key), 0, async () => page("!", 10))).tag !== "!"));
    for (const key of ["a1", "a2", "a3"]) await put("a", key);
    await put("b", "b1");
    await put("c", "c1");
    expect(await kept("a2", "a3", "b1", "c1")).toEqual([true, true, true, true]);
    await put("d", "d1");
    expect(await kept("b1", "c1", "d1")).toEqual([true, true, true]);
    expect(await kept("a1", "a2")).toEqual([false, false]);
  });

  it("at its share an account evicts pages of test keys first, and a test key never a live page", async () => {
    const pages = cacheOf(8 * 16_000, 3 * 16_000);
    const put = async (env: "live" | "test", key: string): Promise<Page> =>
      pages.get(wanted(key, { owner: cellOwner("a", env) }), 0, async () => page(key[0] ?? "", 7_000));
    const isKept = async (key: string): Promise<boolean> =>
      (await pages.get(wanted(key, { limit: -1 }), 0, async () => page("!", 10))).tag !== "!";
    for (const key of ["l1", "l2"]) await put("live", key);
    for (const key of ["t1", "t2", "t3"]) await put("test", key);
    await put("live", "l3");
    expect([await isKept("l1"), await isKept("l2"), await isKept("l3")]).toEqual([true, true, true]);
  });
});
