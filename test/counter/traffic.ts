// Seeded traffic for the limiter: Poisson arrivals at half to five times the limit, bursts, and attacks that aim at
// window and sub-window boundaries, over several rules, subjects and costs.
import type { CheckRequest } from "../../src/counter/counter.ts";
import type { RateLimit } from "../../src/kernel/limits.ts";
import { between, pick, seeded, START } from "./support.ts";

export type Arrival = { t: number; request: CheckRequest };

const WINDOWS = [1_000, 1_001, 1_500, 7_013, 60_000, 3_600_000, 86_400_000, 2_678_400_000] as const;
const LIMITS = [1, 2, 7, 60, 100, 1_000] as const;

/** One scenario: a set of rules, a few subjects, one way of arriving. Different seeds share no counters. */
export function* traffic(seed: number, count: number): Generator<Arrival> {
  const random = seeded(seed);
  const limits = rules(random);
  const pace = pick(random, limits);
  const load = 0.5 + random() * 4.5;
  const gap = pace.window_ms / pace.limit / load;
  const arrive = pick(random, [poisson, bursts, boundaries]);
  const costs = pick(random, [[1], [1, 1, 1, 0], [1, 2, 3, 5], [0, 1, 10, 1_000]]);
  const subjects = between(random, 1, 3);
  const sizes = pick(random, [[1], [1], [1], [1, 2, 0.5]]);
  let t = START + between(random, 0, 2_678_400_000);
  for (let i = 0; i < count; i++) {
    t = Math.max(t, Math.floor(arrive(random, t, gap, pace)));
    const key = between(random, 0, subjects);
    const request: CheckRequest = {
      workspace_id: `w${seed}`,
      project_id: "p",
      env: "live",
      key_id: key === 0 ? null : `k${key}`,
      tenant_id: key === 3 ? null : `t${key % 2}`,
      cost: pick(random, costs),
      limits: resized(limits, pick(random, sizes)),
    };
    yield { t, request };
  }
}

function rules(random: () => number): RateLimit[] {
  return Array.from({ length: pick(random, [1, 1, 2, 3, 4]) }, (_, i) => ({
    id: `rule-${i}`,
    limit: pick(random, LIMITS),
    window_ms: pick(random, WINDOWS),
    algorithm: random() < 0.7 ? ("sliding" as const) : ("fixed" as const),
    scope: random() < 0.7 ? ("key" as const) : ("tenant" as const),
  }));
}

/** A limit may be raised and lowered while its counter keeps counting. */
function resized(limits: RateLimit[], by: number): RateLimit[] {
  return by === 1 ? limits : limits.map((rule) => ({ ...rule, limit: Math.ceil(rule.limit * by) }));
}

type Arrive = (random: () => number, t: number, gap: number, rule: RateLimit) => number;

const poisson: Arrive = (random, t, gap) => t - Math.log(1 - random()) * gap;

/** Many at one moment, then quiet for about as long as they should have taken. */
const bursts: Arrive = (random, t, gap, rule) => (random() < 1 / rule.limit ? t + gap * rule.limit * 2 * random() : t);

/** The last and first milliseconds of sub-windows and windows, now and one window later. */
const boundaries: Arrive = (random, t, gap, rule) => {
  if (random() > 2 / rule.limit) return t + (random() < 0.1 ? 1 : 0);
  const step = pick(random, [rule.window_ms / 60, rule.window_ms]);
  const ahead = pick(random, [0, 0, rule.window_ms]);
  return (Math.floor((t + gap + ahead) / step) + 1) * step + pick(random, [-1, 0, 1]);
};
