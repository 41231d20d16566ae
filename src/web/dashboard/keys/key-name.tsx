// A key in a list: its name, if it has one, above the start of its text.
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
