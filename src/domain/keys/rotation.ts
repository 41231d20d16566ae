// Rotation rules shared by API keys and secret keys.
import { HOUR_MS } from "../../kernel/durations.ts";

type Rotatable = { id: string; expires_at: number | null; requested_expires_at: number | null };

/**
 * The columns in which a successor differs from its predecessor, except its credential. A requested expiry is copied
 * while it is in the future; one that rotation or quarantine set is not.
 */
export function successorColumns(row: Rotatable, id: string, now: number) {
  const { requested_expires_at: requested } = row;
  const bounded = requested !== null && requested > now ? requested : null;
  return {
    id,
    expires_at: bounded,
    requested_expires_at: bounded,
    quarantined_at: null,
    quarantine_reason: null,
    rotated_from: row.id,
    created_at: now,
    last_used_at: null,
  };
}

/** When the old key expires: after the overlap, but never later than it already would. Whole milliseconds. */
export function overlapEnd(row: Rotatable, now: number, overlap_hours: number): number {
  const at = now + overlap_hours * HOUR_MS;
  return Math.floor(row.expires_at === null ? at : Math.min(row.expires_at, at));
}
