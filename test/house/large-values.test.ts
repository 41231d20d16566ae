// A failed matcher never prints a large value: it would take seconds, and as long again for every attempt of a poll.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { root } from "../../harness/repository.ts";

const LENGTH = 5 * 2 ** 20;
const bytes = Buffer.alloc(LENGTH);
const text = "x\n".repeat(LENGTH / 2);

function failure(assertion: () => void): { message: string; actual: unknown; expected: unknown } {
  try {
    assertion();
  } catch (error) {
    return error as ReturnType<typeof failure>;
  }
  throw new Error("the matcher passed");
}

/** Names of tests, for `npm run test:times`; emptied here, because these tests mean it. */
const recorded = (globalThis as unknown as Record<symbol, Set<string>>)[Symbol.for("keyrack.large-values")]!;

describe("a matcher that passes", () => {
  it("is recorded when it gets a large value, on its own or inside another", () => {
    const name = expect.getState().currentTestName ?? "";
    for (const assertion of [
      () => expect(text).toContain("x"),
      () => expect(bytes).not.toBeNull(),
      () => expect([{ text }]).toHaveLength(1),
      () => expect(null).not.toEqual({ bytes }),
    ]) {
      recorded.clear();
      assertion();
      expect([...recorded]).toEqual([name]);
    }
    recorded.clear();
    expect([text.length, "a small value"]).toEqual([LENGTH, "a small value"]);
    expect(recorded.size).toBe(0);
  });
});

describe("a failed matcher", () => {
  it("shows the beginning and the size of a large value", () => {
    for (const assertion of [
      () => expect(bytes).toBeNull(),
      () => expect(bytes).toEqual(Buffer.alloc(10)),
      () => expect(text).toContain("y"),
      () => expect(text).toMatch(/y/),
      () => expect(text).not.toMatch(/x/),
      () => expect(text).toBe(`${text}y`),
      () => expect({ page: { text } }).toEqual({ page: 1 }),
    ]) {
      const { message, actual, expected } = failure(assertion);
      const shown = JSON.stringify([message, actual, expected]);
      expect(shown.length, message).toBeLessThan(8_192);
      expect(shown.includes(`${LENGTH} `), message).toBe(true);
    }
    recorded.clear();
  });

  it("shows 1 KiB around the first difference of two texts, and names a file with all of it", () => {
    const long = (middle: string): string => "a".repeat(9_000) + middle + "b".repeat(2_000);
    for (const [one, other] of [
      [long("left"), long("right")],
      [{ body: long("left") }, { body: long("right") }],
    ]) {
      const { actual, expected } = failure(() => expect(one).toEqual(other));
      const [left, right] = [actual, expected].map((value) => JSON.stringify(value));
      expect(left).toContain("aleftb");
      expect(right).toContain("arightb");
      expect(Math.max(left!.length, right!.length)).toBeLessThan(1_300);
      const file = /all of it in ([^")]+)/.exec(left!)?.[1] ?? "";
      expect(readFileSync(join(root, file), "utf8") === long("left")).toBe(true);
    }
  });

  it("shows other values as they are", () => {
    const { message, actual, expected } = failure(() => expect({ a: [1, "two"] }).toEqual({ a: [1, "three"] }));
    expect(message).toContain("to deeply equal");
    expect([actual, expected]).toEqual([{ a: [1, "two"] }, { a: [1, "three"] }]);
  });
});
