// Audit events of accounts that more than one operation writes.
import type { Event } from "../core/events.ts";

export function userCreated(user_id: string): Event {
  return { action: "user.created", target_id: user_id, payload: {} };
}

export function emailVerified(user_id: string): Event {
  return { action: "user.email_verified", target_id: user_id, payload: {} };
}
