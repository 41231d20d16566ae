// A key's state, and what is worth a look.
import { Badge } from "../parts/badge.tsx";
import { keyNotes, keyState, type KeyTenant } from "./state.ts";

type Props = { of: Parameters<typeof keyState>[0]; tenant?: KeyTenant | undefined };

export function StateBadge({ of, tenant }: Props) {
  const { name, tone } = keyState(of, tenant);
  return (
    <span class="chips">
      <Badge tone={tone}>{name}</Badge>
      {keyNotes(of, tenant).map((note) => (
        <Badge key={note} tone="warn">
          {note}
        </Badge>
      ))}
    </span>
  );
}
