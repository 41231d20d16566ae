// The histogram of event-loop delay: a timer that fires late is counted by how late it fired, and counts stay.
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { LoopDelay } from "../../src/platform/loop-delay.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const counts = ({ seconds }: LoopDelay) =>
  Object.fromEntries(seconds.samples().flatMap(({ labels, value }) => (labels?.le ? [[labels.le, value]] : [])));

it("counts every tick by its lateness, cumulatively and for ever", () => {
  let now = 0;
  const delay = new LoopDelay(() => now);
  const tickAfter = (ms: number): void => {
    now += ms;
    vi.advanceTimersByTime(5);
  };
  tickAfter(5);
  tickAfter(4); // early: as good as in time
  tickAfter(5 + 60);
  tickAfter(5 + 2_000);
  expect(counts(delay)).toMatchObject({ "0.001": 2, "0.05": 2, "0.1": 3, "1": 3, "5": 4, "+Inf": 4 });
  expect(counts(delay)).toMatchObject({ "+Inf": 4 });
  delay.stop();
  tickAfter(5);
  expect(counts(delay)).toMatchObject({ "+Inf": 4 });
});
