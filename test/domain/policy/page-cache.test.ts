// The page cache: bounded by bytes, one build per page, and the same bytes in every encoding.
import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { PageCache, type Page } from "../../../src/domain/policy/page-cache.ts";

function page(tag: string, bytes: number, staleAt = Number.POSITIVE_INFINITY): Page {
  const chunks = [Buffer.alloc(bytes - 1, tag), Buffer.from("!")];
  return { tag, chunks, encoded: {}, bytes, last: null, staleAt };
}

/** Memory of an entry beside its bytes and key. */
const ENTRY_OVERHEAD = 2_048;

const text = async (pages: PageCache, from: Page): Promise<string> => Buffer.concat(await pages.plain(from)).toString();

describe("PageCache", () => {
  it("builds a page once for concurrent requests", async () => {
    const pages = new PageCache();
    let built = 0;
    const ask = async (): Promise<Page> => pages.get("k", 0, async () => page(`a${++built}`, 10));
    const all = await Promise.all([ask(), ask(), ask()]);
    expect([built, new Set(all).size]).toEqual([1, 1]);
    expect(await ask()).toBe(all[0]);
    expect(pages.reads).toEqual({ hits: 1, misses: 3 });
  });

  it("builds a page again after a failed build, and when it is stale", async () => {
    const pages = new PageCache();
    await expect(Promise.resolve(pages.get("k", 0, () => Promise.reject(new Error("no"))))).rejects.toThrow("no");
    const first = await pages.get("k", 0, async () => page("a", 10, 5));
    expect(await pages.get("k", 4, async () => page("b", 10))).toBe(first);
    expect((await pages.get("k", 5, async () => page("b", 10))).tag).toBe("b");
  });

  it("prefetches a page once, after the current turn, unless it is cached", async () => {
    const pages = new PageCache();
    let built = 0;
    const build = async (): Promise<Page> => page(`a${++built}`, 10);
    pages.prefetch("k", 0, build);
    pages.prefetch("k", 0, build);
    expect(built).toBe(0);
    await new Promise((resolve) => setImmediate(resolve));
    expect([(await pages.get("k", 0, build)).tag, built]).toEqual(["a1", 1]);
    pages.prefetch("k", 0, build);
    await new Promise((resolve) => setImmediate(resolve));
    expect(built).toBe(1);
    expect((await pages.get("k", 0, build)).tag).toBe("a1");
    expect(pages.reads).toEqual({ hits: 2, misses: 0 });
  });

  it("builds a page on request after a failed prefetch", async () => {
    const pages = new PageCache();
    pages.prefetch("k", 0, () => Promise.reject(new Error("no")));
    await new Promise((resolve) => setImmediate(resolve));
    expect((await pages.get("k", 0, async () => page("a", 10))).tag).toBe("a");
  });

  it("stays within its byte limit and evicts the least recently used page", async () => {
    const pages = new PageCache(350 + 3 * ENTRY_OVERHEAD);
    for (const key of ["a", "b", "c"]) await pages.get(key, 0, async () => page(key, 100));
    await pages.get("a", 0, async () => page("never", 1));
    await pages.get("d", 0, async () => page("d", 100));
    expect(pages.bytes).toBeLessThanOrEqual(350 + 3 * ENTRY_OVERHEAD);
    expect((await pages.get("a", 0, async () => page("again", 100))).tag).toBe("a");
    expect((await pages.get("b", 0, async () => page("again", 100))).tag).toBe("again");
  });

  it("keeps a large page compressed only, and returns the same bytes in every encoding", async () => {
    const pages = new PageCache();
    const large = await pages.get("k", 0, async () => page("x", 300_000));
    const before = await text(pages, large);
    const zstd = await pages.encoded(large, "zstd");
    expect(large.chunks).toBeNull();
    expect(pages.bytes).toBeLessThan(10_000);
    expect((await text(pages, large)) === before).toBe(true);
    expect(zstdDecompressSync(zstd ?? Buffer.alloc(0)).toString() === before).toBe(true);
    expect(gunzipSync((await pages.encoded(large, "gzip")) ?? Buffer.alloc(0)).toString() === before).toBe(true);
  });

  it("compresses large pages when idle, not between builds", async () => {
    const pages = new PageCache();
    const build = async (key: string) => pages.get(key, 0, async () => page(key, 300_000));
    const built = [await build("a"), await build("b")];
    expect(built.map(({ encoded }) => encoded.zstd)).toEqual([undefined, undefined]);
    await expect.poll(() => built.every(({ chunks }) => chunks === null)).toBe(true);
    expect(pages.bytes).toBeLessThan(10_000);
    const later = await build("c");
    await expect.poll(() => later.chunks === null).toBe(true);
  });

  const MIB = 1024 * 1024;
  /** A cache that records every page it builds. */
  function recordingCache(bytes: number) {
    const pages = new PageCache();
    const built: Page[] = [];
    const build = (key: string) => async (): Promise<Page> => {
      built.push(page(key, bytes));
      return built.at(-1) as Page;
    };
    return { pages, built, ask: async (key: string): Promise<Page> => pages.get(key, 0, build(key)) };
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
    const pages = new PageCache(1_000);
    const evicted = await pages.get("k", 0, async () => page("x", 300_000));
    await pages.encoded(evicted, "zstd");
    expect(pages.bytes).toBe(0);
    expect((await text(pages, evicted)).length).toBe(300_000);
  });

  it("holds 64 MiB by default, including the overhead of each entry", async () => {
    const pages = new PageCache();
    const small = { tag: "t", chunks: [], encoded: {}, bytes: 200 * 1024, last: null, staleAt: Infinity };
    for (let i = 100; i < 500; i++) {
      await pages.get(`k${i}`, 0, async () => ({ ...small }));
      if (i === 100) expect(pages.bytes).toBe(small.bytes + 4 + ENTRY_OVERHEAD);
    }
    expect(pages.bytes).toBe(324 * (small.bytes + 4 + ENTRY_OVERHEAD));
    expect(64 * 1024 * 1024 - pages.bytes).toBeLessThan(small.bytes);
  });

  it("copies short buffers, which would keep a pool of Node.js alive", async () => {
    const pages = new PageCache();
    const chunks = ["x".repeat(2_000), "y"].map((part) => Buffer.from(part));
    const cached = await pages.get("k", 0, async () => ({ ...page("t", 2_001), chunks }));
    const bytes = [...(cached.chunks ?? []), await pages.encoded(cached, "zstd"), await pages.encoded(cached, "gzip")];
    for (const each of bytes) expect(each?.buffer.byteLength).toBe(each?.length);
    expect(await text(pages, cached)).toBe(`${"x".repeat(2_000)}y`);
  });

  it("holds at most tens of thousands of small deltas, because each has overhead", async () => {
    const pages = new PageCache();
    for (let i = 0; i < 50_000; i++) await pages.get(`k${i}`, 0, async () => page("d", 300));
    const { misses } = pages.reads;
    for (const i of [0, 49_999]) await pages.get(`k${i}`, 0, async () => page("d", 300));
    expect(pages.reads.misses - misses).toBe(1); // the first was evicted, the last is cached
  });

  it("counts each encoding once, and a rebuilt page instead of the old one", async () => {
    const pages = new PageCache();
    const first = await pages.get("k", 0, async () => page("a", 2_000, 5));
    const gzip = await pages.encoded(first, "gzip");
    expect(pages.bytes).toBe(2_001 + ENTRY_OVERHEAD + (gzip?.length ?? 0));
    await pages.encoded(first, "gzip");
    expect(pages.bytes).toBe(2_001 + ENTRY_OVERHEAD + (gzip?.length ?? 0));
    await pages.get("k", 5, async () => page("b", 3_000));
    expect(pages.bytes).toBe(3_001 + ENTRY_OVERHEAD);
    await pages.encoded(first, "zstd"); // evicted: no longer counted
    expect(pages.bytes).toBe(3_001 + ENTRY_OVERHEAD);
  });

  it("compresses from 1 KiB on, and keeps only the compressed form from 256 KiB on", async () => {
    const pages = new PageCache();
    expect(pages.encoded(page("x", 1_023), "zstd")).toBeUndefined();
    expect(zstdDecompressSync((await pages.encoded(page("x", 1_024), "zstd")) ?? Buffer.alloc(0))).toHaveLength(1_024);
    const [below, at] = await Promise.all(
      [256 * 1024 - 1, 256 * 1024].map(async (bytes) => pages.get(`${bytes}`, 0, async () => page("x", bytes))),
    );
    for (const each of [below!, at!]) await pages.encoded(each, "zstd");
    expect([below!.chunks === null, at!.chunks === null]).toEqual([false, true]);
  });
});
