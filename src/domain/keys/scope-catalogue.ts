// The scopes that a project knows, with words for people. Only a help: a key may carry others, because scopes live in
// the vendor's code, and a catalogue one deployment behind must not stop the creation of keys.
import type { Warning } from "../core/warnings.ts";

export type CatalogueScope = {
  name: string;
  description: string | null;
  /** Preselected where people choose scopes. */
  default: boolean;
};

/** Warns of each scope that a catalogue lacks, unless it is empty. `stored` is its column. bench: vendor/mint */
export function unknownScopes(stored: string, scopes: readonly string[]): Warning[] {
  if (stored === "[]" || scopes.length === 0) return [];
  const known = new Set((JSON.parse(stored) as CatalogueScope[]).map(({ name }) => name));
  return scopes.flatMap((scope, i) =>
    known.has(scope) ? [] : [{ path: `scopes[${i}]`, message: "is not in the project's scope catalogue" }],
  );
}
