// Seeded traffic for the limiter: Poisson arrivals at half to five times the limit, bursts, and attacks that aim at
// window and sub-window boundaries, over several rules, subjects and costs.
import type { CheckRequest } from "../../src/ratelimit/counter.ts";
import type { RateLimit } from "../../src/kernel/ratelimit/rule.ts";
import { seeded, type Random } from "../random.ts";

/** A time in 2027 that is not the boundary of any window. */
export const START = 1_812_345_678_901;

export type Arrival = { t: number; request: CheckRequest };

const WINDOWS = [1_000, 1_001, 1_500, 7_013, 60_000, 3_600_000, 86_400_000, 2_678_400_000] as const;
const LIMITS = [1, 2, 7, 60, 100, 1_000] as const;

/** One scenario: a set of rules, a few subjects, one arrival pattern. Different seeds share no counters. */
export function* traffic(seed: number, count: number): Generator<Arrival> {
  const random = seeded(seed);
  const limits = rules(random);
  const pace = random.pick(limits);
  const load = 0.5 + random.next() * 4.5;
  const gap = pace.window_ms / pace.limit / load;
  const arrive = random.pick([poisson, bursts, boundaries]);
  const costs = random.pick([[1], [1, 1, 1, 0], [1, 2, 3, 5], [0, 1, 10, 1_000]]);
  const subjects = random.int(1, 3);
  const sizes = random.pick([[1], [1], [1], [1, 2, 0.5]]);
  let t = START + random.int(0, 2_678_400_000);
  for (let i = 0; i < count; i++) {
    t = Math.max(t, Math.floor(arrive(random, t, gap, pace)));
    const key = random.int(0, subjects);
    const request: CheckRequest = {
      workspace_id: `w${seed}`,
      project_id: "p",
      env: "live",
      key_id: key === 0 ? null : `k${key}`,
      tenant_id: key === 3 ? null : `t${key % 2}`,
      cost: random.pick(costs),
      limits: resized(limits, random.pick(sizes)),
    };
    yield { t, request };
  }
}

function rules(random: Random): RateLimit[] {
  return Array.from({ length: random.pick([1, 1, 2, 3, 4]) }, (_, i) => ({
    id: `rule-${i}`,
    limit: random.pick(LIMITS),
    window_ms: random.pick(WINDOWS),
    algorithm: random.next() < 0.7 ? ("sliding" as const) : ("fixed" as const),
    scope: random.next() < 0.7 ? ("key" as const) : ("tenant" as const),
  }));
}

/** A limit may be raised and lowered while its counter keeps counting. */
function resized(limits: RateLimit[], by: number): RateLimit[] {
  return by === 1 ? limits : limits.map((rule) => ({ ...rule, limit: Math.ceil(rule.limit * by) }));
}

type Arrive = (random: Random, t: number, gap: number, rule: RateLimit) => number;

const poisson: Arrive = (random, t, gap) => t - Math.log(1 - random.next()) * gap;

/** Many at once, then a pause about as long as they should have taken. */
const bursts: Arrive = (random, t, gap, rule) =>
  random.next() < 1 / rule.limit ? t + gap * rule.limit * 2 * random.next() : t;

/** The last and first milliseconds of sub-windows and windows, now and one window later. */
const boundaries: Arrive = (random, t, gap, rule) => {
  if (random.next() > 2 / rule.limit) return t + (random.next() < 0.1 ? 1 : 0);
  const step = random.pick([rule.window_ms / 60, rule.window_ms]);
  const ahead = random.pick([0, 0, rule.window_ms]);
  return (Math.floor((t + gap + ahead) / step) + 1) * step + random.pick([-1, 0, 1]);
};
