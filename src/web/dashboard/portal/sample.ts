// Invented data for the preview of a tenant without keys.
import type { RouteOutput } from "../../../client.ts";
import type { Env } from "../../../kernel/credentials.ts";
import { serverNow } from "../api/clock.ts";
import { DAY_MS } from "../../../kernel/durations.ts";

/** What the portal reads of a key. */
type Key = Pick<
  RouteOutput<"GET /v1/keys/{id}">,
  | "id"
  | "display_prefix"
  | "name"
  | "scopes"
  | "expires_at"
  | "revoked_at"
  | "revoked_reason"
  | "quarantined_at"
  | "rotated_from"
  | "created_at"
  | "last_used_at"
>;

const ago = (days: number): string => new Date(serverNow() - days * DAY_MS).toISOString();

export const sampleTenant = { id: "sample-tenant", external_id: "example-customer", name: "Example customer" };

function sampleKey(id: string, env: Env, name: string, scopes: string[], days: number): Key {
  return {
    id: `sample-${id}`,
    display_prefix: `kr_${env}_${id}`,
    name,
    scopes,
    expires_at: null,
    revoked_at: null,
    revoked_reason: null,
    quarantined_at: null,
    rotated_from: null,
    created_at: ago(days),
    last_used_at: ago(days / 40),
  };
}

export const sampleKeys = (env: Env): Key[] => [
  sampleKey("4fTz9w", env, "Production", ["orders:read", "orders:write"], 80),
  sampleKey("Qm27xB", env, "Reporting", ["orders:read"], 12),
];

export function sampleUsage(key_id: string, days: number): RouteOutput<"GET /v1/keys/{id}/usage"> {
  const data = Array.from({ length: days }, (_, i) => {
    const requests = 400 + ((i * 97) % 260);
    return { day: ago(days - 1 - i).slice(0, 10), requests, errors: requests % 23 };
  });
  return { object: "usage", key_id, days, data };
}
