// A key in a list: its name, if it has one, above the start of its text; columns that lists of keys share; links to
// keys and to what they belong to.
import type { Project } from "../api/records.ts";
import { hrefTo } from "../links.ts";
import type { Column } from "../components/table.tsx";
import { Cut, UserText } from "../components/text.tsx";
import { Time } from "../components/time.tsx";
import type { ApiKey } from "./state.ts";

type Named = Pick<ApiKey, "name" | "display_prefix">;

export function KeyName({ of: { name, display_prefix } }: { of: Named }) {
  return (
    <>
      {name !== null && <UserText>{name}</UserText>}
      <code class={name === null ? "" : "under"}>{display_prefix}…</code>
    </>
  );
}

/** Links to a key by its id; `of` is undefined while it is loaded. */
export function KeyLink({ id, of }: { id: string; of: Named | undefined }) {
  return <a href={hrefTo("keys", { id })}>{of ? <KeyName of={of} /> : <code>{id.slice(0, 8)}</code>}</a>;
}

/** `label` is undefined while it is loaded, and for a record that was deleted. */
export function RecordLink({ page, id, label }: { page: string; id: string; label: string | undefined }) {
  if (label === undefined) return <code class="muted">{id.slice(0, 8)}</code>;
  return (
    <a href={hrefTo(page, { id })} class="record-link">
      <Cut>{label}</Cut>
    </a>
  );
}

/** A cell that names the project of a row. */
export const projectCell =
  (projects: readonly Project[]) =>
  ({ project_id }: { project_id: string }) => (
    <RecordLink page="projects" id={project_id} label={projects.find(({ id }) => id === project_id)?.name} />
  );

export const keyColumn: Column<Named & { id: string }> = {
  head: "Key",
  names: true,
  cell: (key) => (
    <a href={hrefTo("keys", { id: key.id })}>
      <KeyName of={key} />
    </a>
  ),
};

export const lastUsedColumn: Column<Pick<ApiKey, "last_used_at">> = {
  head: "Last used",
  cell: ({ last_used_at }) => <Time at={last_used_at} />,
};

/** `expiresRoom`: the width of the table up to which the expiry is below the name. */
export const timeColumns = (
  expiresRoom: 560 | 780,
): Column<Pick<ApiKey, "last_used_at" | "expires_at" | "created_at">>[] => [
  lastUsedColumn,
  {
    head: "Expires",
    room: expiresRoom,
    cell: ({ expires_at }) => <Time at={expires_at} />,
    fold: ({ expires_at }) => expires_at !== null && <Time at={expires_at} />,
    foldsHead: true,
  },
  { head: "Created", room: 860, cell: ({ created_at }) => <Time at={created_at} /> },
];
