// The clock never runs backwards, whatever the wall clock does.
import { array, assert, integer, property, record } from "fast-check";
import { describe, expect, it } from "vitest";
import { createClock } from "../../../src/domain/core/clock.ts";

function sources(start = 1_000_000) {
  const state = { wall: start, monotonic: 500, jumps: [] as number[] };
  const clock = createClock({
    wall: () => state.wall,
    monotonic: () => state.monotonic,
    jumped: (by) => void state.jumps.push(by),
  });
  const pass = (ms: number): void => {
    state.wall += ms;
    state.monotonic += ms;
  };
  return { state, clock, pass };
}

describe("the clock", () => {
  it("returns the wall-clock time in whole milliseconds", () => {
    const { clock, pass } = sources();
    expect(clock.now()).toBe(1_000_000);
    pass(1.75);
    expect(clock.now()).toBe(1_000_001);
    pass(9_000);
    expect(clock.now()).toBe(1_009_001);
  });

  it("follows a forward step at its next check", () => {
    const { state, clock, pass } = sources();
    state.wall += 60_000;
    pass(1_000);
    expect(clock.now()).toBe(1_061_000);
  });

  it("lets a forward step end no lease and no window: the steady time runs a twentieth faster until both agree", () => {
    const { state, clock, pass } = sources();
    state.wall += 122_000;
    const seen = Array.from({ length: 3_000 }, () => {
      pass(1_000);
      return clock.steady();
    });
    expect(seen.slice(0, 3)).toEqual([1_001_050, 1_002_100, 1_003_150]);
    expect([clock.now(), seen.at(-1)]).toEqual([state.wall, state.wall]);
  });

  it("runs at half speed after a backward step until both clocks agree", () => {
    const { state, clock, pass } = sources();
    state.wall -= 10_000;
    const seen = Array.from({ length: 30 }, () => {
      pass(1_000);
      return [clock.now(), clock.steady()];
    });
    expect(seen.slice(0, 3)).toEqual([1_000_500, 1_001_000, 1_001_500].map((ms) => [ms, ms]));
    expect(seen.at(-1)).toEqual([state.wall, state.wall]);
  });

  it("reports a jump above five seconds once, with its size, and no smaller one", () => {
    const { state, clock, pass } = sources();
    const run = (seconds: number): void => {
      for (let i = 0; i < seconds; i++) {
        pass(1_000);
        clock.now();
      }
    };
    state.wall += 4_000;
    run(10);
    expect(state.jumps).toEqual([]);
    state.wall -= 3_600_000;
    run(300); // slewing is not a jump
    expect(state.jumps).toEqual([-3_600_000]);
    state.wall += 30_000;
    run(10);
    expect(state.jumps).toEqual([-3_600_000, 30_000]);
  });

  it("never runs backwards", () => {
    const step = record({ wall: integer({ min: -100_000, max: 100_000 }), ms: integer({ min: 0, max: 5_000 }) });
    assert(
      property(array(step, { maxLength: 200 }), (steps) => {
        const { state, clock, pass } = sources(1e12);
        const read = steps.map(({ wall, ms }) => {
          state.wall += wall;
          pass(ms);
          return [clock.now(), clock.steady()] as const;
        });
        for (const seen of [read.map(([now]) => now), read.map(([, steady]) => steady)]) {
          expect(seen).toEqual(seen.toSorted((a, b) => a - b));
          expect(seen.every(Number.isInteger)).toBe(true);
        }
      }),
    );
  });

  it("uses the system clock by default", () => {
    const before = Date.now();
    const now = createClock().now();
    expect(now).toBeGreaterThanOrEqual(before - 1); // the two clocks round differently
    expect(now).toBeLessThanOrEqual(Date.now() + 1);
  });
});
