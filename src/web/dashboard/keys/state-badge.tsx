// A key's state, and what is worth a look.
import { keyTitle } from "../api/records.ts";
import { hrefTo } from "../links.ts";
import { Badge } from "../components/badge.tsx";
import { FoundAt, UserText } from "../components/text.tsx";
import { Time } from "../components/time.tsx";
import { keyNotes, keyState, type ApiKey, type Beside } from "./state.ts";

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

/** Where it was found, how much time is left, and what to do: rotating does not keep the leaked key alive. */
function LeakedLine({ of, successor }: Props & WithSuccessor) {
  const { quarantined_at, quarantine_reason, expires_at } = of;
  return (
    <span>
      Found at <FoundAt reason={quarantine_reason} /> <Time at={quarantined_at} />.{" "}
      {successor && (
        <>
          It has been replaced by{" "}
          <a href={hrefTo("keys", { id: successor.id })}>
            <UserText>{keyTitle(successor)}</UserText>
          </a>
          .{" "}
        </>
      )}
      It stops working {expires_at === null ? "soon" : <Time at={expires_at} />}.
      {!successor && " Rotate it and deploy the new key before then."}
    </span>
  );
}

/** The key that replaces it, if that works. */
type WithSuccessor = { successor: Pick<ApiKey, "id" | "name" | "display_prefix"> | undefined };

/** The state in a sentence, with its reason, and what to know of a key that nodes allow. */
export function StateLine({ of: key, successor, verdict, ...beside }: Props & WithSuccessor & Pick<ApiKey, "verdict">) {
  const of = { ...key, successor_id: successor?.id };
  const { name, sentence, reason } = keyState(of, beside);
  const [before, at, after] = sentence;
  return (
    <p class="lead state-line">
      <StateBadge of={of} {...beside} />
      {name === "Leaked" ? (
        <LeakedLine of={of} successor={successor} />
      ) : (
        <span>
          {name === "Active" && verdict?.admitted === false ? "Verifiers refuse it now." : before}
          {at !== undefined && <Time at={at} exact />}
          {after}
          {reason && (
            <>
              {" Reason: "}
              <UserText>{reason}</UserText>
            </>
          )}
          {verdict?.admitted && verdict.reasons.map(({ message }) => ` ${message}`)}
        </span>
      )}
    </p>
  );
}
