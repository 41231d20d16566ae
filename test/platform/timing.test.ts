// Limits on how often something is done.
import { expect, it } from "vitest";
import { atMostEvery } from "../../src/platform/timing.ts";

it("acts at once, ignores calls until the time has passed, then acts again", () => {
  let now = 0;
  const acted: string[] = [];
  const act = atMostEvery(
    1_000,
    (value: string) => acted.push(value),
    () => now,
  );
  for (const [at, value] of [
    [0, "first"],
    [1, "ignored"],
    [999, "ignored"],
    [1_000, "second"],
    [1_999, "ignored"],
    [5_000, "third"],
  ] as const) {
    now = at;
    act(value);
  }
  expect(acted).toEqual(["first", "second", "third"]);
});
