// Plain counts of what happened since the start. Counting is one addition; /metrics reads them.
import { actions, type Action } from "../core/events.ts";

export type Tally = { readonly mutations: Record<Action, number> };

export function newTally(): Tally {
  return { mutations: Object.fromEntries(Object.keys(actions).map((name) => [name, 0])) as Record<Action, number> };
}
