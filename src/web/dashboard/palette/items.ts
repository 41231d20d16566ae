// What the command palette offers for a text: pages, actions and workspaces, then records that the server finds. A
// whole credential is never part of an address: an API key is looked up in the body of a request, any other is named by
// its kind.
import { call } from "../api/call.ts";
import { roleName, session } from "../api/session.ts";
import { env, hrefInEnv, hrefTo, slug } from "../links.ts";
import { keyTitle, matches, searchProjects, searchTenants, tenantLabel } from "../api/records.ts";
import { roleReason } from "../components/button.tsx";
import { place } from "../routes.ts";
import type { NavItem } from "../shell/nav.tsx";

export type PaletteItem = {
  group: string;
  label: string;
  hint?: string;
  href: string;
  /** Why it cannot be chosen. */
  disabled?: string | null;
  /** Leads to the list, which may have more than the group. */
  isWholeList?: boolean;
};

/** Results of each of three kinds, besides the way to the whole list. */
const FOUND_MAX = 4;

const wholeList = (group: string, page: string, q: string, state = ""): PaletteItem => ({
  group,
  label: q === "" ? `All ${page}` : `All ${page} matching “${q}”`,
  href: hrefTo(page, { query: { q, state } }),
  isWholeList: true,
});

/** Pages, actions and workspaces: known without asking the server. */
export function localItems(text: string, pages: readonly NavItem[]): PaletteItem[] {
  const other = env.value === "live" ? "test" : "live";
  const here = place.value.kind === "workspace" ? place.value.page : "";
  const stays = pages.some(({ page, hasEnv }) => page === here && hasEnv);
  const disabled = roleReason("admin");
  const create = (what: string, page: string): PaletteItem => {
    return { group: "Actions", label: `Create ${what}`, disabled, href: hrefTo(page, { query: { create: "1" } }) };
  };
  const all: PaletteItem[] = [
    ...pages.map(({ page, title }) => ({ group: "Pages", label: title, href: hrefTo(page) })),
    { group: "Pages", label: "Account", href: "#/account" },
    ...["key", "tenant", "project", "plan"].map((what) => create(what, `${what}s`)),
    { group: "Actions", label: `Switch to ${other}`, href: stays ? hrefInEnv(other) : hrefTo("home", { env: other }) },
    // Beyond the bound of results until something is typed.
    create("secret key", "developers"),
    ...(session.value?.memberships ?? [])
      .filter((one) => one.slug !== slug.value)
      .map((one) => ({
        group: "Workspaces",
        label: one.name,
        hint: roleName(one.role),
        href: hrefTo("home", { slug: one.slug }),
      })),
  ];
  return all.filter(({ label }) => matches(text, label));
}

async function searchKeys(text: string, abort: AbortSignal): Promise<PaletteItem[]> {
  const find = (state: { state?: "revoked" }) =>
    call("GET /v1/keys", { query: { q: text, env: env.value, limit: FOUND_MAX, ...state } }, { signal: abort });
  const usual = await find({});
  // Rotations leave many revoked keys of one name, which must not hide the others.
  const state = usual.data.length === 0 ? "revoked" : "";
  const { data, next_cursor = null } = state === "" ? usual : await find({ state });
  const tenants = await tenantNames(data, abort);
  const found = data.map((key) => ({
    group: "Keys",
    label: keyTitle(key),
    hint: [`${key.display_prefix}…`, tenants.get(key.tenant_id), state].filter(Boolean).join(" · "),
    href: hrefTo("keys", { id: key.id }),
  }));
  return next_cursor === null ? found : [...found, wholeList("Keys", "keys", text, state)];
}

/** Names by id: keys of several tenants often have the same name. */
async function tenantNames(
  keys: readonly { tenant_id: string }[],
  abort: AbortSignal,
): Promise<ReadonlyMap<string, string>> {
  const ids = [...new Set(keys.map(({ tenant_id }) => tenant_id))].join(",");
  if (ids === "") return new Map();
  const { data } = await call("GET /v1/tenants", { query: { ids } }, { signal: abort }).catch(() => ({ data: [] }));
  return new Map(data.map((tenant) => [tenant.id, tenantLabel(tenant)]));
}

/** `q`: for the list of all, if it has a search. */
async function searchNamed(
  [group, page, q]: readonly [group: string, page: string, q: string],
  search: Promise<readonly { id: string; label: string; hint?: string }[]>,
): Promise<PaletteItem[]> {
  const all = await search;
  const found = all.slice(0, FOUND_MAX).map(({ id, label, hint = "" }) => {
    return { group, label, hint, href: hrefTo(page, { id }) };
  });
  return all.length > FOUND_MAX ? [...found, wholeList(group, page, q)] : found;
}

/** Records of the workspace. A search that fails leaves the others. */
export async function remoteItems(text: string, abort: AbortSignal): Promise<PaletteItem[]> {
  if (text === "" || slug.value === "") return [];
  const found = await Promise.allSettled([
    searchKeys(text, abort),
    searchNamed(["Projects", "projects", ""], searchProjects(text, abort)),
    searchNamed(["Tenants", "tenants", text], searchTenants(text, abort)),
  ]);
  return found.flatMap((one) => (one.status === "fulfilled" ? one.value : []));
}

/** The record of a pasted key, if it is one of this workspace. */
export async function lookUpItems(key: string, abort: AbortSignal): Promise<PaletteItem[]> {
  const { record, admitted } = await call("POST /v1/keys/lookup", { body: { key } }, { signal: abort });
  if (record?.object !== "api_key") return [];
  const { data: tenants } = await call("GET /v1/tenants", { query: { ids: record.tenant_id } }, { signal: abort });
  const hint = [admitted ? "allowed" : "refused", ...tenants.map(tenantLabel)].join(" · ");
  return [{ group: "Keys", label: keyTitle(record), hint, href: hrefTo("keys", { id: record.id, env: record.env }) }];
}
