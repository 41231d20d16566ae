// Functions for what SQL does too slowly, registered on every SQLite connection.
import { BoundedMap } from "../../kernel/bounded-map.ts";

/** Most keys of a project have one of a few lists of scopes. */
const CUTS_MAX = 200;
const cuts = new BoundedMap<string, string>({ max: CUTS_MAX, evictAtOnce: CUTS_MAX });

/**
 * Returns a key's scopes that its plan's ceiling contains, in the key's order; both are JSON texts. The same in SQL,
 * over json_each, takes four times as long as the whole row of a snapshot. bench: feed/snapshot-plans
 */
export function scopesWithin(held: string, ceiling: string): string {
  const name = `${ceiling}${held}`;
  const known = cuts.get(name);
  if (known !== undefined) return known;
  const allowed = new Set(JSON.parse(ceiling) as string[]);
  const cut = JSON.stringify((JSON.parse(held) as string[]).filter((scope) => allowed.has(scope)));
  cuts.set(name, cut);
  return cut;
}
