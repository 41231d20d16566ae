// A key's state, and what is worth a look.
import { Badge } from "../parts/badge.tsx";
import { keyNotes, keyState, type Beside } from "./state.ts";

type Props = Beside & { of: Parameters<typeof keyState>[0] };

export function StateBadge({ of, ...beside }: Props) {
  const { name, tone } = keyState(of, beside);
  return (
    <span class="chips">
      <Badge tone={tone}>{name}</Badge>
      {keyNotes(of, beside).map((note) => (
        <Badge key={note} tone="warn">
          {note}
        </Badge>
      ))}
    </span>
  );
}
