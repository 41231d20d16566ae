// A key in a list: its name, if it has one, above the start of its text; links to keys and to what they belong to.
import { hrefTo } from "../here.ts";
import { Cut, UserText } from "../parts/text.tsx";
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
