// The names of the verification library's denials. They are reported as outcomes of requests, so that the library, the
// usage series and the dashboard share one list.

export const VERIFY_DENIALS = [
  "missing_key",
  "invalid_key",
  "expired_key",
  "tenant_suspended",
  "key_disabled",
  "ip_not_allowed",
  "insufficient_scope",
  "unavailable",
] as const;

export const DENIALS = [
  ...VERIFY_DENIALS,
  "rate_limited",
  "quota_exceeded",
  "idempotency_key_required",
  "idempotency_key_invalid",
  "idempotency_in_progress",
  "idempotency_not_kept",
  "idempotency_mismatch",
  "idempotency_unavailable",
  "body_invalid",
  "body_too_large",
] as const;

export type VerifyDenial = (typeof VERIFY_DENIALS)[number];
export type DenialName = (typeof DENIALS)[number];
