// The chunks of a body: the same bytes in the same order, however small and however many, in little memory.
import { join } from "node:path";
import fc from "fast-check";
import { expect, it } from "vitest";
import { ChunkList } from "../../src/http/body/chunk-list.ts";
import { root } from "../../harness/repository.ts";
import { propertyRuns } from "../../harness/rounds.ts";
import { runScript } from "../../harness/scripts.ts";

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

it("does not keep one buffer per byte", () => {
  // A process of its own: collecting the garbage of this one, which other files share, takes ten times the CPU time.
  const { err, out } = runScript(join(root, "harness/memory/chunk-list.ts"), []);
  const { megabytes, isComplete } = JSON.parse(out || "{}") as { megabytes?: number; isComplete?: boolean };
  expect(megabytes, err).toBeLessThan(10); // a buffer per byte would take more than fifty
  expect(isComplete).toBe(true);
});
