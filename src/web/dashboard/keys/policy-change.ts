// What a form changes of a record, whether it reaches the nodes, and in which projects.
import { call } from "../api/call.ts";

const KEYS_MAX = 200;

/** A value as text, whatever the order of its properties. */
const textOf = (value: unknown): string =>
  JSON.stringify(value ?? null, (_name, each: unknown) =>
    each !== null && typeof each === "object" && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  );

/** The fields that differ from the record as the form showed it: others may have been changed by other people since. */
export function changesOf<T extends object>(before: object, after: T): Partial<T> {
  const known = before as Record<string, unknown>;
  const changed = Object.entries(after).filter(([name, value]) => textOf(value) !== textOf(known[name]));
  return Object.fromEntries(changed) as Partial<T>;
}

/** Whether one of these fields differs: names and notes stay on the server. */
export function hasChanged<T extends object>(before: T, after: T, names: readonly (keyof T)[]): boolean {
  return names.some((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
}

/** The projects in which a tenant has keys, by its newest ones. */
export async function tenantProjects(tenant_id: string): Promise<string[]> {
  const { data } = await call("GET /v1/keys", { query: { tenant_id, limit: KEYS_MAX } });
  return [...new Set(data.map(({ project_id }) => project_id))];
}
