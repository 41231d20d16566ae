// A key's state, and what is worth a look.
import { Badge } from "../parts/badge.tsx";
import { UserText } from "../parts/text.tsx";
import { Time } from "../parts/time.tsx";
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

/** The state in a sentence, with its reason. */
export function StateLine({ of, ...beside }: Props) {
  const { sentence, reason } = keyState(of, beside);
  const [before, at, after] = sentence;
  return (
    <p class="lead state-line">
      <StateBadge of={of} {...beside} />
      <span>
        {before}
        {at !== undefined && <Time at={at} exact focusable />}
        {after}
        {reason && (
          <>
            {" Reason: "}
            <UserText>{reason}</UserText>
          </>
        )}
      </span>
    </p>
  );
}
