// A failed matcher never prints a large value: it would take seconds, and as long again for every attempt of a poll.
import { describe, expect, it } from "vitest";

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

  it("shows other values as they are", () => {
    const { message, actual, expected } = failure(() => expect({ a: [1, "two"] }).toEqual({ a: [1, "three"] }));
    expect(message).toContain("to deeply equal");
    expect([actual, expected]).toEqual([{ a: [1, "two"] }, { a: [1, "three"] }]);
  });
});
