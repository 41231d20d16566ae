// The filters of the list of keys: search, project and state, all in the address. A whole key never gets there: it is
// looked up instead.
import { useEffect, useRef } from "preact/hooks";
import type { RouteInput } from "../../../client.ts";
import { env, param, setParams } from "../here.ts";
import { Button } from "../parts/button.tsx";
import { pageCursor, pageSize } from "../parts/pager.tsx";
import { credentialNote } from "../shell/palette-items.ts";
import type { Project } from "./records.ts";

type Query = NonNullable<RouteInput<"GET /v1/keys">["query"]>;

const TYPING_MS = 200;
const NAMES = ["q", "project", "tenant", "state", "after"];
const STATES = [
  ["active", "Active"],
  ["expiring", "Expire within 7 days"],
  ["quarantined", "Quarantined"],
  ["disabled", "Disabled"],
  ["expired", "Expired"],
  ["revoked", "Revoked"],
] as const;

const stateOf = (): (typeof STATES)[number][0] | undefined => STATES.find(([name]) => name === param("state"))?.[0];

/** A search and a state are paged by cursor, the plain list by its last id. */
export function keysQuery(): Query {
  const [q, project_id, tenant_id, at, state] = [
    param("q"),
    param("project"),
    param("tenant"),
    pageCursor(),
    stateOf(),
  ];
  const searches = q !== "" || state !== undefined;
  return {
    env: env.value,
    limit: pageSize(),
    ...(q !== "" && { q }),
    ...(state !== undefined && { state }),
    ...(project_id !== "" && { project_id }),
    ...(tenant_id !== "" && { tenant_id }),
    ...(param("state") === "all" && { include_revoked: "true" as const }),
    ...(at !== undefined && (searches ? { cursor: at } : { after: at })),
  };
}

export const isFiltered = (): boolean => NAMES.some((name) => param(name) !== "");
export const clearFilters = (): void => setParams(Object.fromEntries(NAMES.map((name) => [name, null])));

/** `onCredential`: the text is a credential and has been removed from the field. */
function Search({ onCredential }: { onCredential: (text: string) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const q = param("q");
  useEffect(() => {
    // The address changed by other means than typing.
    if (input.current && input.current !== document.activeElement) input.current.value = q;
  }, [q]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const search = (): void => {
    clearTimeout(timer.current);
    const text = input.current?.value.trim() ?? "";
    if (input.current && credentialNote(text) !== null) {
      input.current.value = "";
      return onCredential(text);
    }
    timer.current = setTimeout(() => setParams({ q: text, after: null }, { replace: true }), TYPING_MS);
  };
  return (
    <input
      ref={input}
      type="search"
      aria-label="Search keys"
      placeholder="Search keys"
      autocomplete="off"
      spellcheck={false}
      maxLength={100}
      defaultValue={q}
      onInput={search}
    />
  );
}

type FiltersProps = { projects: readonly Project[]; onLookUp: (text: string) => void };

export function Filters({ projects, onLookUp }: FiltersProps) {
  const choose = (name: string) => (event: Event) =>
    setParams({ [name]: (event.currentTarget as HTMLSelectElement).value, after: null });
  return (
    <div class="filters" role="search" aria-label="Filter keys">
      <Search onCredential={onLookUp} />
      <select aria-label="Filter by project" onChange={choose("project")}>
        <option value="">All projects</option>
        {projects.map(({ id, name }) => (
          <option key={id} value={id} selected={id === param("project")}>
            {name}
          </option>
        ))}
      </select>
      <select aria-label="Filter by state" onChange={choose("state")}>
        <option value="">Not revoked</option>
        <option value="all" selected={param("state") === "all"}>
          All, with revoked
        </option>
        {STATES.map(([name, label]) => (
          <option key={name} value={name} selected={param("state") === name}>
            {label}
          </option>
        ))}
      </select>
      {isFiltered() && (
        <Button kind="quiet" onClick={clearFilters}>
          Clear filters
        </Button>
      )}
      <Button kind="quiet" needs="admin" onClick={() => onLookUp("")}>
        Look up a key
      </Button>
    </div>
  );
}
