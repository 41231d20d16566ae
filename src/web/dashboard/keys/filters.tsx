// The filters of the list of keys. A whole key never gets into the address: it is looked up instead.
import type { RouteInput } from "../../../client.ts";
import { Combobox } from "../forms/combobox.tsx";
import { Filters, projectOptions, SelectFilter } from "../forms/filters.tsx";
import type { Option } from "../forms/field.tsx";
import { SearchField, TextFilter } from "../forms/search.tsx";
import { env, param, setParams } from "../links.ts";
import { pageCursor, pageSize } from "../components/pager.tsx";
import type { BulkFilter } from "../bulk/run.ts";
import { searchTenants, useTenantParam, type Project } from "../api/records.ts";

type Query = NonNullable<RouteInput<"GET /v1/keys">["query"]>;

export const KEY_FILTERS = ["q", "project", "tenant", "state", "scope"];
const STATES = [
  ["active", "Active"],
  ["expiring", "Expiring within 7 days"],
  ["idle", "Unused for 30 days"],
  ["quarantined", "Leaked"],
  ["disabled", "Disabled"],
  ["expired", "Expired"],
  ["revoked", "Revoked"],
] as const;

const stateOf = (): (typeof STATES)[number][0] | undefined => STATES.find(([name]) => name === param("state"))?.[0];

/** A search, a state and a scope are paged by cursor, the plain list by its last id. */
export function keysQuery(): Query {
  const [q, project_id, tenant_id, scope] = [param("q"), param("project"), param("tenant"), param("scope")];
  const [at, state] = [pageCursor(), stateOf()];
  const searches = q !== "" || scope !== "" || state !== undefined;
  return {
    env: env.value,
    limit: pageSize(),
    ...(q !== "" && { q }),
    ...(state !== undefined && { state }),
    ...(scope !== "" && { scope }),
    ...(project_id !== "" && { project_id }),
    ...(tenant_id !== "" && { tenant_id }),
    ...(param("state") === "all" && { include_revoked: "true" as const }),
    ...(at !== undefined && (searches ? { cursor: at } : { after: at })),
  };
}

/** The scopes that the projects list, and the one in the address. */
function scopeOptions(projects: readonly Project[]): Option[] {
  const listed = projects.flatMap(({ scope_catalogue }) => scope_catalogue.map(({ name }) => name));
  const names = new Set([...listed, param("scope")].filter((name) => name !== ""));
  return [["", "All scopes"], ...[...names].toSorted().map((name) => [name, name] as const)];
}

/** The filters as a bulk action takes them; null if it cannot. */
export function bulkFilter(): BulkFilter | null {
  const [project_id, tenant_id, scope] = [param("project"), param("tenant"), param("scope")];
  const state = stateOf();
  if (param("q") !== "" || state === "expiring" || state === "revoked" || state === "idle") return null;
  const owner = {
    ...(project_id !== "" && { project_id }),
    ...(tenant_id !== "" && { tenant_id }),
    ...(scope !== "" && { scope }),
  };
  const chosen = Object.keys(owner).length > 0 ? owner : { all: true as const };
  return { ...chosen, env: env.value, ...(state !== undefined && { state }) };
}

/** What is filtered, without the page: a selection ends when it changes. */
export const filtersText = (): string => JSON.stringify(KEY_FILTERS.map(param));

export function TenantFilter() {
  const { chosen: shown } = useTenantParam();
  return (
    <Combobox
      name="tenant"
      label="Filter by tenant"
      placeholder="All tenants"
      isFilter
      chosen={shown}
      onChoose={(chosen) => setParams({ tenant: chosen?.id ?? null, after: null })}
      search={searchTenants}
    />
  );
}

/** Without `onLookUp` a pasted key is only named. */
type KeyFiltersProps = { projects: readonly Project[]; onLookUp: ((text: string) => void) | undefined };

export function KeyFilters({ projects, onLookUp }: KeyFiltersProps) {
  const hasCatalogue = projects.some(({ scope_catalogue }) => scope_catalogue.length > 0);
  return (
    <Filters label="Filter keys" names={KEY_FILTERS}>
      <SearchField label="Search keys" onCredential={onLookUp} />
      <SelectFilter name="project" label="Filter by project" options={projectOptions(projects)} />
      <TenantFilter />
      <SelectFilter
        name="state"
        label="Filter by state"
        options={[["", "Except revoked"], ["all", "All, including revoked"], ...STATES]}
      />
      {hasCatalogue ? (
        <SelectFilter name="scope" label="Filter by scope" options={scopeOptions(projects)} />
      ) : (
        <TextFilter name="scope" label="Filter by scope" />
      )}
    </Filters>
  );
}
