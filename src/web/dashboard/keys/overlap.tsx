// How long the old key works after a rotation.
import { useState } from "preact/hooks";
import { serverNow } from "../api/clock.ts";
import { SelectField, type Option } from "../forms/field.tsx";
import type { Values } from "../forms/form.tsx";
import { Time } from "../components/time.tsx";
import { HOUR_MS } from "../../../kernel/durations.ts";

const DEFAULT = "24";
const OVERLAPS: readonly Option[] = [
  ["0", "No overlap: stop it now"],
  ["1", "1 hour"],
  [DEFAULT, "24 hours"],
  ["72", "3 days"],
  ["168", "7 days"],
];

/** `expires_at`: of the old key, which a rotation never extends. */
export function OverlapField({ expires_at }: { expires_at: string | null }) {
  const [hours, setHours] = useState(DEFAULT);
  const now = serverNow();
  const expiry = expires_at === null ? Number.POSITIVE_INFINITY : Date.parse(expires_at);
  if (expiry <= now) return <p>The old key has expired.</p>;
  const until = new Date(Math.min(now + Number(hours) * HOUR_MS, expiry)).toISOString();
  return (
    <SelectField
      name="overlap_hours"
      label="The old key keeps working for"
      options={OVERLAPS}
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
