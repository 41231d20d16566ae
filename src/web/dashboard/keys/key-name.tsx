// A key in a list: its name, if it has one, above the start of its text.
import { useRead } from "../api/query.ts";
import { hrefTo } from "../here.ts";
import { UserText } from "../parts/text.tsx";
import type { ApiKey } from "./state.ts";

export function KeyName({ of: { name, display_prefix } }: { of: Pick<ApiKey, "name" | "display_prefix"> }) {
  return (
    <>
      {name !== null && <UserText>{name}</UserText>}
      <code class={name === null ? "" : "under"}>{display_prefix}…</code>
    </>
  );
}

/** Links to a key by its id. */
export function KeyLink({ id }: { id: string }) {
  const { data } = useRead("GET /v1/keys/{id}", { params: { id } }).answer.value;
  return <a href={hrefTo("keys", { id })}>{data ? <KeyName of={data} /> : <code>{id.slice(0, 8)}</code>}</a>;
}
