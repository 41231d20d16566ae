// Rotation rules shared by API keys and secret keys.
import { HOUR_MS } from "../../kernel/durations.ts";
import { fail } from "../../kernel/errors.ts";
import type { Actor } from "../core/actor.ts";

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

/** Whether the actor is a credential that cannot create others, and is about to rotate itself. */
export function isOwnHolder(actor: Actor, row: { id: string }): boolean {
  const cannotCreate = actor.kind === "api_key" || (actor.kind === "secret_key" && actor.restriction !== null);
  return cannotCreate && actor.id === row.id;
}

/**
 * A leaked key must not get itself a successor without quarantine: the caller may be its finder. People, other
 * secret keys and the portal may rotate it. So may an unrestricted secret key itself: it could create another anyway.
 */
export function requireNoQuarantine(actor: Actor, row: { id: string; quarantined_at: number | null }): void {
  if (isOwnHolder(actor, row) && row.quarantined_at !== null) throw fail("quarantined_not_rotatable");
}

/** When the old key expires: after the overlap, but never later than it already would. Whole milliseconds. */
export function overlapEnd(row: Rotatable, now: number, overlap_hours: number): number {
  const at = now + overlap_hours * HOUR_MS;
  return Math.floor(row.expires_at === null ? at : Math.min(row.expires_at, at));
}
