// The feed's kept pages: bounded by bytes, built once, and the same bytes however they are kept.
import { gunzipSync, zstdDecompressSync } from "node:zlib";
import { describe, expect, it, vi } from "vitest";
import { PageCache, type Page } from "../../../src/domain/policy/page-cache.ts";

function page(tag: string, bytes: number, staleAt = Number.POSITIVE_INFINITY): Page {
  const chunks = [Buffer.alloc(bytes - 1, tag), Buffer.from("!")];
  return { tag, chunks, encoded: {}, bytes, last: null, staleAt };
}

/** What a page takes besides its bytes and its key. */
const BESIDES = 2_048;

const text = async (pages: PageCache, from: Page): Promise<string> => Buffer.concat(await pages.plain(from)).toString();

describe("PageCache", () => {
  it("builds a page once, however many ask for it at the same time", async () => {
    const pages = new PageCache();
    let built = 0;
    const ask = async (): Promise<Page> => pages.get("k", 0, async () => page(`a${++built}`, 10));
    const all = await Promise.all([ask(), ask(), ask()]);
    expect([built, new Set(all).size]).toEqual([1, 1]);
    expect(await ask()).toBe(all[0]);
    expect(pages.reads).toEqual({ hits: 1, misses: 3 });
  });

  it("builds it again when the first try failed, and when it has grown stale", async () => {
    const pages = new PageCache();
    await expect(Promise.resolve(pages.get("k", 0, () => Promise.reject(new Error("no"))))).rejects.toThrow("no");
    const first = await pages.get("k", 0, async () => page("a", 10, 5));
    expect(await pages.get("k", 4, async () => page("b", 10))).toBe(first);
    expect((await pages.get("k", 5, async () => page("b", 10))).tag).toBe("b");
  });

  it("prepares a page for whoever asks next: once, after the turn, and not one that is there", async () => {
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

  it("leaves a failed preparation to whoever asks", async () => {
    const pages = new PageCache();
    pages.prefetch("k", 0, () => Promise.reject(new Error("no")));
    await new Promise((resolve) => setImmediate(resolve));
    expect((await pages.get("k", 0, async () => page("a", 10))).tag).toBe("a");
  });

  it("keeps no more bytes than it may, and forgets what was not asked for the longest", async () => {
    const pages = new PageCache(350 + 3 * BESIDES);
    for (const key of ["a", "b", "c"]) await pages.get(key, 0, async () => page(key, 100));
    await pages.get("a", 0, async () => page("never", 1));
    await pages.get("d", 0, async () => page("d", 100));
    expect(pages.bytes).toBeLessThanOrEqual(350 + 3 * BESIDES);
    expect((await pages.get("a", 0, async () => page("again", 100))).tag).toBe("a");
    expect((await pages.get("b", 0, async () => page("again", 100))).tag).toBe("again");
  });

  it("keeps a large page compressed only and still tells the same bytes in every form", async () => {
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

  it("compresses large pages when none has been built for a moment, not while the next is waited for", async () => {
    const pages = new PageCache();
    const build = async (key: string) => pages.get(key, 0, async () => page(key, 300_000));
    const built = [await build("a"), await build("b")];
    expect(built.map(({ encoded }) => encoded.zstd)).toEqual([undefined, undefined]);
    await vi.waitFor(() => expect(built.every(({ chunks }) => chunks === null)).toBe(true));
    expect(pages.bytes).toBeLessThan(10_000);
    const later = await build("c"); // the same again after a quiet time
    await vi.waitFor(() => expect(later.chunks === null).toBe(true));
  });

  const MIB = 1024 * 1024;
  /** Pages by key, each remembered whenever it is built. */
  function library(bytes: number) {
    const pages = new PageCache();
    const built: Page[] = [];
    const build = (key: string) => async (): Promise<Page> => {
      built.push(page(key, bytes));
      return built.at(-1) as Page;
    };
    return { pages, built, ask: async (key: string): Promise<Page> => pages.get(key, 0, build(key)) };
  }
  const tags = (built: readonly Page[]): string => built.map(({ tag }) => tag).join("");

  it("lets no more than 4 MiB wait for that: the oldest go, and are built again when it is quiet", async () => {
    const { pages, built, ask } = library(1.5 * MIB);
    for (const key of "abcd") await ask(key);
    expect(pages.bytes).toBeLessThan(4 * MIB);
    expect(tags(built)).toBe("abcd");
    await vi.waitFor(() => expect(tags(built)).toBe("abcdab"), 5_000);
    await vi.waitFor(() => expect(built.slice(2).every(({ chunks }) => chunks === null)).toBe(true), 5_000);
    for (const key of "abcd") expect((await text(pages, await ask(key))).startsWith(key.repeat(9))).toBe(true);
    expect(tags(built)).toBe("abcdab"); // all of them are kept by now
    expect(pages.bytes).toBeLessThan(MIB);
  });

  it("compresses a page at once that went and is asked for again before it is quiet", async () => {
    const { built, ask } = library(1.5 * MIB);
    for (const key of "abc") await ask(key);
    const again = await ask("a");
    expect(again.encoded.zstd).toBeDefined();
    await again.encoded.zstd;
    expect(await ask("a")).toBe(again);
    expect(tags(built)).toBe("abca");
  });

  it("lets no page go that somebody took compressed", async () => {
    const { pages, built, ask } = library(1.5 * MIB);
    for (const key of "abcdef") await pages.encoded(await ask(key), "zstd");
    for (const key of "abcdef") expect((await ask(key)).chunks).toBeNull();
    expect(tags(built)).toBe("abcdef");
  });

  it("lets a page wait that is larger than that alone", async () => {
    const { built, ask } = library(5 * MIB);
    const large = await ask("a");
    await vi.waitFor(() => expect(large.chunks).toBeNull(), 5_000);
    expect(tags(built)).toBe("a");
  });

  it("builds no more than 32 pages again", async () => {
    const { built, ask } = library(MIB / 2);
    for (let i = 0; i < 60; i++) await ask(String.fromCharCode(0x40 + i));
    const first = built.length;
    await vi.waitFor(() => expect(built.slice(-8).every(({ chunks }) => chunks === null)).toBe(true), 10_000);
    expect(built.length - first).toBe(32 - 8);
  });

  it("still tells a page that was dropped while somebody was sending it", async () => {
    const pages = new PageCache(1_000);
    const dropped = await pages.get("k", 0, async () => page("x", 300_000));
    await pages.encoded(dropped, "zstd");
    expect(pages.bytes).toBe(0);
    expect((await text(pages, dropped)).length).toBe(300_000);
  });

  it("holds 64 MiB unless told otherwise, and counts what a page takes besides its bytes", async () => {
    const pages = new PageCache();
    const small = { tag: "t", chunks: [], encoded: {}, bytes: 200 * 1024, last: null, staleAt: Infinity };
    for (let i = 100; i < 500; i++) {
      await pages.get(`k${i}`, 0, async () => ({ ...small }));
      if (i === 100) expect(pages.bytes).toBe(small.bytes + 4 + BESIDES);
    }
    expect(pages.bytes).toBe(324 * (small.bytes + 4 + BESIDES)); // the last that fits
    expect(64 * 1024 * 1024 - pages.bytes).toBeLessThan(small.bytes);
  });

  it("keeps a page's own bytes, not the slab of node's that a short Buffer is cut from", async () => {
    const pages = new PageCache();
    const chunks = ["x".repeat(2_000), "y"].map((part) => Buffer.from(part));
    const kept = await pages.get("k", 0, async () => ({ ...page("t", 2_001), chunks }));
    const bytes = [...(kept.chunks ?? []), await pages.encoded(kept, "zstd"), await pages.encoded(kept, "gzip")];
    for (const each of bytes) expect(each?.buffer.byteLength).toBe(each?.length);
    expect(await text(pages, kept)).toBe(`${"x".repeat(2_000)}y`);
  });

  it("keeps tens of thousands of small deltas at most: each is an answer with its headers", async () => {
    const pages = new PageCache();
    for (let i = 0; i < 50_000; i++) await pages.get(`k${i}`, 0, async () => page("d", 300));
    const { misses } = pages.reads;
    for (const i of [0, 49_999]) await pages.get(`k${i}`, 0, async () => page("d", 300));
    expect(pages.reads.misses - misses).toBe(1); // the first is long gone, the last is there
  });

  it("counts an encoding once it is made, and a page built anew instead of the old one", async () => {
    const pages = new PageCache();
    const first = await pages.get("k", 0, async () => page("a", 2_000, 5));
    const gzip = await pages.encoded(first, "gzip");
    expect(pages.bytes).toBe(2_001 + BESIDES + (gzip?.length ?? 0));
    await pages.encoded(first, "gzip");
    expect(pages.bytes).toBe(2_001 + BESIDES + (gzip?.length ?? 0));
    await pages.get("k", 5, async () => page("b", 3_000));
    expect(pages.bytes).toBe(3_001 + BESIDES);
    await pages.encoded(first, "zstd"); // dropped: nobody's to count
    expect(pages.bytes).toBe(3_001 + BESIDES);
  });

  it("compresses from a kibibyte on, and keeps compressed only from 256 on", async () => {
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
