// Committed mutations by audit action since the start of the process, for /metrics.
import { actions, type Action } from "../core/events.ts";

export type MutationCounts = Record<Action, number>;

export function newMutationCounts(): MutationCounts {
  return Object.fromEntries(Object.keys(actions).map((name) => [name, 0])) as MutationCounts;
}
