// The workspace, environment and filters that the address names, and links to other pages of the same workspace.
import { computed, effect } from "@preact/signals";
import type { Env } from "../../kernel/credentials.ts";
import { membership, onForget } from "./api/session.ts";
import { go, place } from "./routes.ts";

/** The slug of the workspace in the address, or of the one that was open before the account page. */
export const slug = computed(() =>
  place.value.kind === "workspace" ? place.value.slug : (membership.value?.slug ?? ""),
);

/** The environment in which each workspace was seen last, by slug. */
const lastEnv = new Map<string, Env>();
effect(() => {
  if (place.value.kind === "workspace") lastEnv.set(place.value.slug, place.value.env);
});

/** Where a workspace opens: in the environment in which it was left. */
export const envOf = (workspace: string): Env => lastEnv.get(workspace) ?? "live";

/** The environment of the page, or of the page before one that has none. */
export const env = computed<Env>(() => (place.value.kind === "workspace" ? place.value.env : envOf(slug.value)));

type Query = Record<string, string | number | null | undefined>;

function withQuery(path: string, query: Query): string {
  const set = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(set.map(([name, value]) => [name, String(value)]));
  return search.size > 0 ? `${path}?${search}` : path;
}

type LinkOptions = { id?: string | null; query?: Query; env?: Env; slug?: string };

/** The address of a page of this workspace. */
export function hrefTo(page: string, options: LinkOptions = {}): string {
  const { id, query = {} } = options;
  const path = `#/w/${options.slug ?? slug.value}/${options.env ?? env.value}/${page}`;
  return withQuery(id == null ? path : `${path}/${encodeURIComponent(id)}`, query);
}

/**
 * The page on the screen in another environment, with its filters, from the first row. A key belongs to one
 * environment: the other one has the list.
 */
export function hrefInEnv(other: Env): string {
  const at = place.value;
  if (at.kind !== "workspace") return "#/";
  const { page, id } = at;
  if (page === "keys" && id !== null) return hrefTo(page, { env: other });
  return hrefTo(page, { id, env: other, query: { ...Object.fromEntries(at.query), after: null } });
}

/** The query with which each list was seen last, by its address without one. */
const lastQuery = new Map<string, URLSearchParams>();
effect(() => {
  const at = place.value;
  if (at.kind === "workspace" && at.id === null) lastQuery.set(hrefTo(at.page), at.query);
});

onForget(() => {
  lastEnv.clear();
  lastQuery.clear();
});

/** The way back from a record: its list with the filters and the page that were shown last. */
export function hrefToList(page: string): string {
  const list = hrefTo(page);
  return withQuery(list, Object.fromEntries(lastQuery.get(list) ?? []));
}

/** Where this server is reached, for code to copy. */
export const serverUrl = (): string => location.origin + location.pathname.replace(/\/+$/, "");

/** A filter, tab or cursor in the address; empty if it is not there. */
export const param = (name: string): string => place.value.query.get(name) ?? "";

/** Changes filters in the address. `replace`: while typing, so that Back leaves the page instead of a letter. */
export function setParams(changes: Query, { replace = false } = {}): void {
  const [path = "#/"] = location.hash.split("?", 1);
  const query = { ...Object.fromEntries(place.value.query), ...changes };
  go(withQuery(path, query), { replace });
}
