// Records of the API by their type; projects and tenants by id and by words, for pages that show or choose them.
import type { RouteOutput } from "../../../client.ts";
import { call } from "./call.ts";
import { useQuery, useRead } from "./query.ts";
import type { Suggestion } from "../forms/combobox.tsx";

export type Project = RouteOutput<"GET /v1/projects/{id}">;
export type ScopeCatalogue = Project["scope_catalogue"];
export type Tenant = RouteOutput<"GET /v1/tenants/{id}">;
export type Plan = RouteOutput<"GET /v1/plans/{id}">;
export type SecretKey = RouteOutput<"GET /v1/secret_keys/{id}">;
export type Member = RouteOutput<"GET /v1/members">["data"][number];
export type UsageSeries = RouteOutput<"GET /v1/usage/series">;

export const tenantLabel = ({ name, external_id }: Pick<Tenant, "name" | "external_id">): string => name ?? external_id;

export function useProjects(): readonly Project[] {
  return useRead("GET /v1/projects", {}).state.value.data?.data ?? [];
}

/** Maximum number of ids in one request. */
export const IDS_MAX = 200;

/** The tenants with these ids, of which there are at most 200; absent while loading and when deleted. */
export function useTenants(ids: readonly string[]): ReadonlyMap<string, Tenant> {
  const wanted = [...new Set(ids)].toSorted().slice(0, IDS_MAX).join(",");
  const load = async (abort: AbortSignal): Promise<readonly Tenant[]> =>
    wanted === "" ? [] : (await call("GET /v1/tenants", { query: { ids: wanted } }, { signal: abort })).data;
  const { data } = useQuery(`GET /v1/tenants ${wanted}`, load).state.value;
  return new Map(data?.map((tenant) => [tenant.id, tenant]));
}

const SUGGESTED_MAX = 20;
/** A page of a search may be empty although there is more: each examines a part of the tenants. */
const PAGES_MAX = 10;

/** The newest without a text. */
export async function searchTenants(text: string, abort: AbortSignal): Promise<Suggestion[]> {
  const found: Tenant[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < PAGES_MAX && found.length < SUGGESTED_MAX; page++) {
    const query = { limit: SUGGESTED_MAX, ...(text !== "" && { q: text }), ...(cursor !== undefined && { cursor }) };
    const { data, next_cursor = null } = await call("GET /v1/tenants", { query }, { signal: abort });
    found.push(...data);
    if (next_cursor === null) break;
    cursor = next_cursor;
  }
  return found.map((tenant) => ({ id: tenant.id, label: tenantLabel(tenant), hint: tenant.external_id }));
}

const matches = (text: string, ...fields: string[]): boolean =>
  fields.some((field) => field.toLowerCase().includes(text.toLowerCase()));

export async function searchProjects(text: string, abort: AbortSignal): Promise<Suggestion[]> {
  const { data } = await call("GET /v1/projects", {}, { signal: abort });
  return data
    .filter(({ slug, name }) => matches(text, slug, name))
    .map(({ id, name, slug }) => ({ id, label: name, hint: slug }));
}
