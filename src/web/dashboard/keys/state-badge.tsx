// A key's state, and what is worth a look.
import { Badge } from "../parts/badge.tsx";
import { keyNotes, keyState } from "./state.ts";

export function StateBadge({ of }: { of: Parameters<typeof keyState>[0] }) {
  const { name, tone } = keyState(of);
  return (
    <span class="chips">
      <Badge tone={tone}>{name}</Badge>
      {keyNotes(of).map((note) => (
        <Badge key={note} tone="warn">
          {note}
        </Badge>
      ))}
    </span>
  );
}
