// What happened since the start of the process, for /metrics.
import { actions, type Action } from "../core/events.ts";
import { SeriesCounts } from "../series/counts.ts";

/** `other`: not an API key. */
export type LookupOutcome = "admitted" | "refused" | "unknown" | "other";

export type Counts = {
  /** Committed mutations by audit action. */
  readonly mutations: Record<Action, number>;
  /** Keys that were looked up by outcome. */
  readonly lookups: Record<LookupOutcome, number>;
  /** What exceeded a cap of the usage series or was ignored. */
  readonly series: SeriesCounts;
};

export function newCounts(): Counts {
  const mutations = Object.fromEntries(Object.keys(actions).map((name) => [name, 0])) as Counts["mutations"];
  return { mutations, lookups: { admitted: 0, refused: 0, unknown: 0, other: 0 }, series: new SeriesCounts() };
}
