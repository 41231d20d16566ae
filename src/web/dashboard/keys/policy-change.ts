// Whether a saved change reaches the nodes, and in which projects.
import { call } from "../api/call.ts";

const KEYS_MAX = 200;

/** Whether one of these fields differs: names and notes stay on the server. */
export function hasChanged<T extends object>(before: T, after: T, names: readonly (keyof T)[]): boolean {
  return names.some((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
}

/** The projects in which a tenant has keys, by its newest ones. */
export async function tenantProjects(tenant_id: string): Promise<string[]> {
  const { data } = await call("GET /v1/keys", { query: { tenant_id, limit: KEYS_MAX } });
  return [...new Set(data.map(({ project_id }) => project_id))];
}
