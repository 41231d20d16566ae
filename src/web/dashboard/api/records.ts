// Records of the API by their type; projects and tenants by id and by words, for pages that show or choose them.
import type { RouteOutput } from "../../../client.ts";
import { param } from "../links.ts";
import { call } from "./call.ts";
import { readRecent, useQuery, useRead, type Read } from "./query.ts";

export type Project = RouteOutput<"GET /v1/projects/{id}">;
export type ScopeCatalogue = Project["scope_catalogue"];
export type Tenant = RouteOutput<"GET /v1/tenants/{id}">;
export type Plan = RouteOutput<"GET /v1/plans/{id}">;
type ListedKey = RouteOutput<"GET /v1/keys">["data"][number];
export type SecretKey = RouteOutput<"GET /v1/secret_keys">["data"][number];
export type Member = RouteOutput<"GET /v1/members">["data"][number];
export type UsageSeries = RouteOutput<"GET /v1/usage/series">;

/** A key's name, or the start of its text. */
export const keyTitle = ({ name, display_prefix }: Pick<ListedKey, "name" | "display_prefix">): string =>
  name ?? `${display_prefix}…`;

export const tenantLabel = ({ name, external_id }: Pick<Tenant, "name" | "external_id">): string => name ?? external_id;

/** Maximum number of rows, and of ids, in one request. */
const PAGE_MAX = 200;

/** All projects, newest first. */
async function readProjects(abort: AbortSignal): Promise<readonly Project[]> {
  const all: Project[] = [];
  for (;;) {
    const query = { limit: PAGE_MAX, after: all.at(-1)?.id };
    const { data, has_more } = await call("GET /v1/projects", { query }, { signal: abort });
    all.push(...data);
    if (!has_more) return all;
  }
}

const PROJECTS = "GET /v1/projects";

export const useProjectsRead = (): Read<readonly Project[]> => useQuery(PROJECTS, readProjects);

/** None while loading, and where they are not needed. */
export function useProjects(isNeeded = true): readonly Project[] {
  return useQuery(PROJECTS, readProjects, { isNeeded }).state.value.data ?? [];
}

type Options = { everyMs?: number; isNeeded?: boolean };

export const usePlansRead = (isNeeded = true): Read<{ data: readonly Plan[] }> =>
  useRead("GET /v1/plans", {}, { isNeeded });

/** All plans; none while loading. */
export function usePlans(isNeeded = true): readonly Plan[] {
  return usePlansRead(isNeeded).state.value.data?.data ?? [];
}

/** The newest secret keys; null while loading. */
export function useSecretKeys(options: Options = {}): readonly SecretKey[] | null {
  return useRead("GET /v1/secret_keys", { query: { limit: PAGE_MAX } }, options).state.value.data?.data ?? null;
}

/** Records by their ids, of which 200 are read; absent while loading and when deleted. */
function useByIds<T extends { id: string }>(
  route: string,
  ids: readonly string[],
  read: (ids: string, options: { signal: AbortSignal }) => Promise<{ data: readonly T[] }>,
  options: Options,
): ReadonlyMap<string, T> {
  const wanted = [...new Set(ids)].toSorted().slice(0, PAGE_MAX).join(",");
  const load = async (signal: AbortSignal): Promise<readonly T[]> => (await read(wanted, { signal })).data;
  const isNeeded = wanted !== "" && (options.isNeeded ?? true);
  // Names of the rows before are kept: many are those of the rows that follow.
  const { data } = useQuery(`${route} ${wanted}`, load, { ...options, isNeeded, keeps: true }).state.value;
  return new Map(data?.map((record) => [record.id, record]));
}

export const useTenants = (ids: readonly string[], options: Options = {}): ReadonlyMap<string, Tenant> =>
  useByIds(
    "GET /v1/tenants",
    ids,
    (wanted, signal) => call("GET /v1/tenants", { query: { ids: wanted } }, signal),
    options,
  );

/** Undefined while loading, if it was deleted, and for an empty id. */
export const useTenant = (id = "", options: Options = {}): Tenant | undefined =>
  useTenants(id === "" ? [] : [id], options).get(id);

/** The tenant in the address, by default. */
export function useTenantParam(id = param("tenant")): { tenant: Tenant | undefined; chosen: Suggestion | null } {
  const tenant = useTenant(id);
  return { tenant, chosen: id === "" ? null : { id, label: tenant ? tenantLabel(tenant) : id } };
}

/** Revoked ones too. */
export function useKeys(ids: readonly string[], options: Options = {}): ReadonlyMap<string, ListedKey> {
  const query = { include_revoked: "true" as const, limit: PAGE_MAX };
  return useByIds(
    "GET /v1/keys",
    ids,
    (wanted, signal) => call("GET /v1/keys", { query: { ...query, ids: wanted } }, signal),
    options,
  );
}

/** A record to choose. */
export type Suggestion = { id: string; label: string; hint?: string };

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

export const matches = (text: string, ...fields: string[]): boolean =>
  fields.some((field) => field.toLowerCase().includes(text.toLowerCase()));

export async function searchProjects(text: string, abort: AbortSignal): Promise<Suggestion[]> {
  return (await readRecent(PROJECTS, readProjects, abort))
    .filter(({ slug, name }) => matches(text, slug, name))
    .map(({ id, name, slug }) => ({ id, label: name, hint: slug }));
}
