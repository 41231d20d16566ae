// Responses of the embed plane, as far as the portal uses them.
import { successorOf } from "../shared/successor.ts";

export type Session = {
  project: { id: string; name: string; slug: string };
  env: "live" | "test";
  test_mode: boolean;
  tenant: { id: string; external_id: string; name: string | null };
  scopes: string[];
  /** Absent from servers that cannot suspend tenants. */
  suspended?: boolean;
  /** Days that a new key lives; absent from servers without such a policy. */
  default_ttl_days?: number | null;
  /** Absent from servers that have no catalogue. */
  scope_catalogue?: { name: string; description: string | null; default: boolean }[];
  /** Absent from servers whose preflight refuses the header. */
  accepts_idempotency_key?: boolean;
};

export type Key = {
  id: string;
  display_prefix: string;
  name: string | null;
  scopes: string[];
  expires_at: string | null;
  revoked_at: string | null;
  revoked_reason: string | null;
  quarantined_at: string | null;
  /** Absent from servers that cannot disable keys. */
  disabled_at?: string | null;
  rotated_from: string | null;
  created_at: string;
  last_used_at: string | null;
};

export type NewKey = Key & { key: string };
export type Keys = { data: Key[]; has_more?: true };
export type Quota = {
  id: string;
  amount: number;
  remaining: number;
  exceeded: boolean;
  resets_at: string | null;
};
export type Day = { day: string; requests: number; errors: number };

/** What `getToken` returns: the token's text, or Keyrack's whole response, which also has the time of renewal. */
export type Token = string | { token: string; issued_at?: string; refresh_after?: string };

export type State = "active" | "replaced" | "quarantined" | "disabled" | "suspended" | "expired" | "revoked";

/**
 * The state of a key in its list: a key that expires and has an active successor is being replaced. While the tenant is
 * suspended, so is every key that would work otherwise.
 */
export function stateOf(key: Key, all: readonly Key[], now: number, suspended = false): State {
  if (key.revoked_at) return "revoked";
  if (key.expires_at && Date.parse(key.expires_at) <= now) return "expired";
  if (suspended) return "suspended";
  if (key.disabled_at) return "disabled";
  if (key.quarantined_at) return "quarantined";
  return key.expires_at && successorOf(key, all, now) ? "replaced" : "active";
}

/** Whether the token and the tenant's state allow new keys. */
export function canCreate(session: Session): boolean {
  return session.scopes.includes("keys:write") && !session.suspended;
}

/** The scopes that this token may grant to a key. */
export function grantedScopes(session: Session): string[] {
  const prefix = "key_scope:";
  return session.scopes.filter((scope) => scope.startsWith(prefix)).map((scope) => scope.slice(prefix.length));
}
