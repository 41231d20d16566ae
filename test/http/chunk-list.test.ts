// Chunks of a body: the same bytes in the same order, however small and however many, and cheap to hold.
import fc from "fast-check";
import { expect, it } from "vitest";
import { ChunkList } from "../../src/http/body.ts";
import { usedMegabytes } from "../../harness/processes/heap.ts";

it("are joined to what came, in the order in which it came", () => {
  const sizes = fc.array(fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 9_000 })), {
    maxLength: 200,
    size: "max",
  });
  fc.assert(
    fc.property(sizes, (lengths) => {
      const pieces = new ChunkList();
      const all = lengths.map((length, i) => Buffer.alloc(length, (i % 251) + 1));
      for (const piece of all) pieces.add(piece);
      const want = Buffer.concat(all);
      expect(pieces.bytes).toBe(want.length);
      expect(pieces.joined().equals(want)).toBe(true);
    }),
    { numRuns: 200 },
  );
});

it("a body of one piece is that piece, not a copy of it", () => {
  const pieces = new ChunkList();
  const piece = Buffer.from("{}");
  pieces.add(piece);
  expect(pieces.joined()).toBe(piece);
});

it("single bytes are not held as so many buffers", async () => {
  const bytes = Buffer.alloc(65_536, "x");
  const before = await usedMegabytes();
  const held = Array.from({ length: 20 }, () => new ChunkList());
  for (const pieces of held) for (let i = 0; i < bytes.length; i++) pieces.add(bytes.subarray(i, i + 1));
  expect((await usedMegabytes()) - before).toBeLessThan(10); // a buffer each would be more than a hundred
  expect(held.every((pieces) => pieces.joined().equals(bytes))).toBe(true);
});
