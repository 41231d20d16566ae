// The scopes that a route requires: all of a list, and one of each of some groups.
import { need } from "./options.ts";

/** A list: the key must have all of them. */
export type RequiredScopes = readonly string[] | { all?: readonly string[]; any?: readonly string[] };

export type ScopeRequirement = {
  readonly all: readonly string[];
  /** Groups of scopes: the key must have one of each group. */
  readonly any: readonly (readonly string[])[];
};

export const NO_GROUPS: ScopeRequirement["any"] = Object.freeze([]);

const isList = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((one) => typeof one === "string" && one !== "");

export function readScopes(scopes: RequiredScopes): ScopeRequirement {
  if (Array.isArray(scopes)) {
    need(isList(scopes), "scopes must be a list of texts");
    return { all: [...scopes], any: NO_GROUPS };
  }
  need(typeof scopes === "object" && scopes !== null, "scopes must be a list, or { all, any }");
  const { all, any, ...rest } = scopes as { all?: readonly string[]; any?: readonly string[] };
  for (const name of Object.keys(rest)) need(false, `scopes has no field "${name}"`);
  need(all !== undefined || any !== undefined, "scopes needs all or any");
  need(all === undefined || isList(all), "scopes.all must be a list");
  need(any === undefined || (isList(any) && any.length > 0), "scopes.any must be a list that is not empty");
  return { all: [...(all ?? [])], any: any ? [[...any]] : NO_GROUPS };
}
