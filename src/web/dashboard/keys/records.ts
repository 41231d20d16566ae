// Projects and tenants by id, for pages that show keys: lists are read once, single records where the list ends.
import type { RouteOutput } from "../../../client.ts";
import { call } from "../api/call.ts";
import { useQuery, useRead } from "../api/query.ts";
import type { Suggestion } from "../forms/combobox.tsx";

export type Project = RouteOutput<"GET /v1/projects/{id}">;
export type Tenant = RouteOutput<"GET /v1/tenants/{id}">;

export const tenantLabel = ({ name, external_id }: Pick<Tenant, "name" | "external_id">): string => name ?? external_id;

export function useProjects(): readonly Project[] {
  return useRead("GET /v1/projects", {}).answer.value.data?.data ?? [];
}

/** Records that are read one by one; a page must not open with dozens of requests. */
const SINGLE_READS_MAX = 4;

/** The tenants with these ids; absent while loading, when deleted, and beyond what a page may read. */
export function useTenants(ids: readonly string[]): ReadonlyMap<string, Tenant> {
  const wanted = [...new Set(ids)].toSorted();
  const { data } = useQuery(`tenants ${wanted.join(" ")}`, (abort) => loadTenants(wanted, abort)).answer.value;
  return new Map(data?.map((tenant) => [tenant.id, tenant]));
}

async function loadTenants(ids: readonly string[], abort: AbortSignal): Promise<Tenant[]> {
  if (ids.length === 0) return [];
  const list = ids.length > 1 ? (await call("GET /v1/tenants", {}, { signal: abort })).data : [];
  const missing = ids.filter((id) => !list.some((tenant) => tenant.id === id)).slice(0, SINGLE_READS_MAX);
  const read = (id: string) => call("GET /v1/tenants/{id}", { params: { id } }, { signal: abort }).catch(() => null);
  const single = await Promise.all(missing.map(read));
  return [...list, ...single.filter((tenant) => tenant !== null)];
}

const matches = (text: string, ...fields: (string | null)[]): boolean =>
  fields.some((field) => field?.toLowerCase().includes(text.toLowerCase()));

export async function searchTenants(text: string, abort: AbortSignal): Promise<Suggestion[]> {
  const { data } = await call("GET /v1/tenants", {}, { signal: abort });
  return data
    .filter(({ external_id, name }) => matches(text, external_id, name))
    .map((tenant) => ({ id: tenant.id, label: tenantLabel(tenant), hint: tenant.external_id }));
}

export async function searchProjects(text: string, abort: AbortSignal): Promise<Suggestion[]> {
  const { data } = await call("GET /v1/projects", {}, { signal: abort });
  return data
    .filter(({ slug, name }) => matches(text, slug, name))
    .map(({ id, name, slug }) => ({ id, label: name, hint: slug }));
}
