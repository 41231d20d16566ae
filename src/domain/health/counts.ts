// What happened since the start of the process, for /metrics: committed mutations by audit action, and keys that were
// looked up by outcome (`other`: not an API key).
import { actions, type Action } from "../core/events.ts";

export type MutationCounts = Record<Action, number>;
export type LookupOutcome = "admitted" | "refused" | "unknown" | "other";
export type LookupCounts = Record<LookupOutcome, number>;

export function newCounts(): { mutationCounts: MutationCounts; lookupCounts: LookupCounts } {
  const mutationCounts = Object.fromEntries(Object.keys(actions).map((name) => [name, 0])) as MutationCounts;
  return { mutationCounts, lookupCounts: { admitted: 0, refused: 0, unknown: 0, other: 0 } };
}
