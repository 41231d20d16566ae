// The chunks of a body: the same bytes in the same order, however small and however many, in little memory.
import fc from "fast-check";
import { expect, it } from "vitest";
import { ChunkList } from "../../src/http/body/chunk-list.ts";
import { usedMegabytes } from "../../harness/processes/heap.ts";
import { propertyRuns } from "../../harness/rounds.ts";

it("joins chunks in the order of their arrival", () => {
  const sizes = fc.array(fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 9_000 })), {
    maxLength: 200,
    size: "max",
  });
  fc.assert(
    fc.property(sizes, (lengths) => {
      const chunks = new ChunkList();
      const all = lengths.map((length, i) => Buffer.alloc(length, (i % 251) + 1));
      for (const chunk of all) chunks.add(chunk);
      const want = Buffer.concat(all);
      expect(chunks.bytes).toBe(want.length);
      expect(chunks.joined().equals(want)).toBe(true);
    }),
    { numRuns: propertyRuns(200) },
  );
});

it("returns a single chunk as it is, without a copy", () => {
  const chunks = new ChunkList();
  const chunk = Buffer.from("{}");
  chunks.add(chunk);
  expect(chunks.joined()).toBe(chunk);
});

it("does not keep one buffer per byte", async () => {
  const bytes = Buffer.alloc(65_536, "x");
  const before = await usedMegabytes();
  const held = Array.from({ length: 8 }, () => new ChunkList());
  for (const chunks of held) for (let i = 0; i < bytes.length; i++) chunks.add(bytes.subarray(i, i + 1));
  expect((await usedMegabytes()) - before).toBeLessThan(10); // a buffer per byte would take more than fifty
  expect(held.every((chunks) => chunks.joined().equals(bytes))).toBe(true);
});
