// The fields of records as the contract lists them, in order.

export const KEY_FIELDS = [
  "object",
  "id",
  "project_id",
  "tenant_id",
  "env",
  "display_prefix",
  "name",
  "scopes",
  "meta",
  "rate_limits",
  "expires_at",
  "revoked_at",
  "revoked_reason",
  "quarantined_at",
  "quarantine_reason",
  "rotated_from",
  "created_at",
  "last_used_at",
  "disabled_at",
  "disabled_reason",
];
