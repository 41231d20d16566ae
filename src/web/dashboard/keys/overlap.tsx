// How long the old key works after a rotation.
import { useState } from "preact/hooks";
import { serverNow } from "../api/clock.ts";
import { SelectField, type Option } from "../forms/field.tsx";
import type { Values } from "../forms/form.tsx";
import { Time } from "../components/time.tsx";
import { HOUR_MS } from "../../../kernel/durations.ts";

const DEFAULT = "24";
const LONGEST = "168";
const OVERLAPS: readonly Option[] = [
  ["0", "Now, without overlap"],
  ["1", "In 1 hour"],
  [DEFAULT, "In 24 hours"],
  ["72", "In 3 days"],
  [LONGEST, "In 7 days"],
];

/** A rotation never extends the old key: beyond its expiry there is one choice, whose hours the server cuts. */
function overlapsWithin(leftMs: number): readonly Option[] {
  const shorter = OVERLAPS.filter(([hours]) => Number(hours) * HOUR_MS < leftMs);
  return shorter.length === OVERLAPS.length ? shorter : [...shorter, [LONGEST, "When it expires"]];
}

/** `expires_at`: of the old key. */
export function OverlapField({ expires_at }: { expires_at: string | null }) {
  const now = serverNow();
  const expiry = expires_at === null ? Number.POSITIVE_INFINITY : Date.parse(expires_at);
  const [options] = useState(() => overlapsWithin(expiry - now));
  const [hours, setHours] = useState(options.some(([each]) => each === DEFAULT) ? DEFAULT : LONGEST);
  if (expiry <= now) return <p>The old key has expired.</p>;
  const until = new Date(Math.min(now + Number(hours) * HOUR_MS, expiry)).toISOString();
  return (
    <SelectField
      name="overlap_hours"
      label="The old key stops working"
      options={options}
      value={hours}
      onChange={setHours}
      hint={
        hours === "0" ? (
          "The old key stops working immediately."
        ) : (
          <>
            The old key works until <Time at={until} exact />.
          </>
        )
      }
    />
  );
}

export const overlapOf = ({ overlap_hours = DEFAULT }: Values) => ({ overlap_hours: Number(overlap_hours) });
