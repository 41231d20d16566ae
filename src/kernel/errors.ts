// The failure table: every error response of Keyrack, with its status, public code and message. No message is written
// anywhere else; `throw fail("tenant_not_found")` is the only way to refuse a request.
import type { RateLimitState } from "./ratelimit/headers.ts";

/** The closed list of public codes: clients branch on them, so a new failure reuses one. */
type Code =
  | "invalid_request"
  | "invalid_token"
  | "unauthenticated"
  | "invalid_key"
  | "expired_key"
  | "invalid_session"
  | "invalid_embed_token"
  | "invalid_credentials"
  | "invalid_signature"
  | "forbidden"
  | "tenant_suspended"
  | "key_disabled"
  | "ip_not_allowed"
  | "insufficient_scope"
  | "origin_not_allowed"
  | "email_unverified"
  | "not_found"
  | "method_not_allowed"
  | "sign_up_closed"
  | "conflict"
  | "payload_too_large"
  | "snapshot_too_large"
  | "unsupported_media_type"
  | "idempotency_mismatch"
  | "rate_limited"
  | "internal_error"
  | "unavailable";

/** `retryAfter`: seconds; a 503 without it says RETRY_AFTER_503. */
type Row = readonly [status: number, code: Code, message: string, retryAfter?: number];

const RETRY_AFTER_503 = 1;

export const failures = {
  // 400
  invalid_body: [400, "invalid_request", "The request body is not valid."],
  body_too_complex: [400, "invalid_request", "The request body is not valid."],
  invalid_query: [400, "invalid_request", "The query is not valid."],
  invalid_path: [400, "invalid_request", "The path is not valid."],
  invalid_header: [400, "invalid_request", "A request header is not valid."],
  malformed_request: [400, "invalid_request", "The request is not valid HTTP."],
  request_timeout: [408, "invalid_request", "The request took too long to arrive."],
  headers_too_large: [431, "invalid_request", "The request headers are too large."],
  credential_in_query: [
    400,
    "invalid_request",
    "The query contains a key. URLs are logged: send the key in the body of POST /v1/keys/lookup.",
  ],
  invalid_token: [400, "invalid_token", "The token is invalid or has expired."],
  // 401
  unauthenticated: [401, "unauthenticated", "A credential is required: send Authorization: Bearer <credential>."],
  unusable_credential: [
    401,
    "unauthenticated",
    "The Authorization header must contain exactly one credential, of a kind that this endpoint accepts.",
  ],
  invalid_key: [401, "invalid_key", "Invalid API key."],
  expired_key: [401, "expired_key", "This API key has expired."],
  invalid_session: [401, "invalid_session", "The session is invalid or has ended."],
  invalid_embed_token: [401, "invalid_embed_token", "The embed token is invalid or has expired."],
  invalid_credentials: [401, "invalid_credentials", "Email or password is incorrect."],
  invalid_signature: [401, "invalid_signature", "The signature is missing or does not match."],
  // 403
  wrong_current_password: [403, "invalid_credentials", "The current password is incorrect."],
  needs_secret_key: [403, "forbidden", "This endpoint accepts a secret key only."],
  needs_session: [403, "forbidden", "This endpoint accepts a session only."],
  needs_vendor: [403, "forbidden", "This endpoint accepts a secret key or a session."],
  needs_session_or_bootstrap: [403, "forbidden", "This endpoint accepts a session or the bootstrap token."],
  needs_embed_token: [403, "forbidden", "This endpoint accepts an embed token only."],
  needs_api_key: [403, "forbidden", "This endpoint accepts an API key only."],
  holder_rotate_off: [403, "forbidden", "Keys of this project cannot be rotated by their holder."],
  tenant_suspended: [403, "tenant_suspended", "This account is suspended."],
  key_disabled: [403, "key_disabled", "This API key is disabled."],
  ip_not_allowed: [403, "ip_not_allowed", "This API key may not be used from this address."],
  owner_only: [403, "forbidden", "Only an owner may do this."],
  lacks_permission: [403, "forbidden", "This secret key lacks a permission for this."],
  member_is_read_only: [403, "forbidden", "A member may not change anything."],
  test_cannot_live: [403, "forbidden", "A test secret key cannot manage live resources."],
  test_refused: [403, "forbidden", "A test secret key may not do this."],
  no_active_workspace: [403, "forbidden", "No active workspace."],
  not_a_member: [403, "forbidden", "You are not a member of that workspace."],
  insufficient_scope: [403, "insufficient_scope", "The credential lacks a required scope."],
  origin_not_allowed: [403, "origin_not_allowed", "This origin is not allowed."],
  backend_only: [
    403,
    "origin_not_allowed",
    "This endpoint is for backends: it refuses requests with an Origin header. Never use a secret key in a browser.",
  ],
  sign_up_closed: [403, "sign_up_closed", "Sign-up is closed. Ask the person who runs this server for an account."],
  sign_up_by_invitation: [
    403,
    "sign_up_closed",
    "Sign-up is by invitation. If you were invited, use the link in your invitation.",
  ],
  email_unverified: [403, "email_unverified", "Verify your email address first."],
  // 404, 405
  no_such_route: [404, "not_found", "No such route."],
  workspace_not_found: [404, "not_found", "No such workspace."],
  project_not_found: [404, "not_found", "No such project."],
  tenant_not_found: [404, "not_found", "No such tenant."],
  plan_not_found: [404, "not_found", "No such plan."],
  key_not_found: [404, "not_found", "No such key."],
  secret_key_not_found: [404, "not_found", "No such secret key."],
  member_not_found: [404, "not_found", "No such member."],
  invite_not_found: [404, "not_found", "No such invitation."],
  session_not_found: [404, "not_found", "No such session."],
  user_not_found: [404, "not_found", "No such user."],
  quota_not_found: [404, "not_found", "No such quota."],
  grant_not_found: [404, "not_found", "No such grant."],
  mail_not_found: [404, "not_found", "No such message."],
  asset_not_found: [404, "not_found", "No such file."],
  series_off: [404, "not_found", "Usage series are not enabled."],
  scanner_off: [404, "not_found", "Secret scanning is not configured."],
  method_not_allowed: [
    405,
    "method_not_allowed",
    "This endpoint does not accept this method. The Allow header lists those that it does.",
  ],
  // 409
  slug_taken: [409, "conflict", "That slug is already in use."],
  plan_in_use: [409, "conflict", "This plan is in use. Move its tenants to another plan first."],
  plan_keys_cap: [409, "conflict", "This tenant's plan allows no more active keys."],
  external_id_taken: [409, "conflict", "That external id is already in use."],
  prefix_taken: [409, "conflict", "That key prefix belongs to another workspace."],
  prefix_quota: [409, "conflict", "This project or workspace has reached its limit of key prefixes."],
  disabled_not_rotatable: [409, "conflict", "A disabled key cannot be rotated."],
  tenant_is_suspended: [409, "conflict", "This tenant is suspended."],
  bulk_unexpected: [409, "conflict", "More keys match than expected. Nothing was changed."],
  revoked_not_rotatable: [409, "conflict", "A revoked key cannot be rotated."],
  quarantined_not_rotatable: [409, "conflict", "A quarantined key cannot rotate itself."],
  expired_not_rotatable: [409, "conflict", "An expired key cannot be rotated. Create a new key instead."],
  successor_still_valid: [409, "conflict", "This key already has an unexpired successor."],
  revoked_not_editable: [409, "conflict", "A revoked key cannot be changed."],
  quarantine_not_extendable: [409, "conflict", "The expiry of a quarantined key cannot be moved later."],
  last_owner: [409, "conflict", "A workspace must keep at least one owner."],
  already_invited: [409, "conflict", "That address already has a pending invitation."],
  user_exists: [409, "conflict", "That address already has an account."],
  already_member: [409, "conflict", "That person is already a member."],
  invite_accepted: [409, "conflict", "An accepted invitation cannot be revoked."],
  mail_not_retryable: [409, "conflict", "That message has already been sent."],
  quota_reached: [409, "conflict", "This workspace has reached its limit for records of this kind."],
  grant_reference_used: [409, "conflict", "That reference was used for another grant."],
  grants_reached: [409, "conflict", "This quota has reached its limit of unspent grants."],
  workspaces_reached: [409, "conflict", "You have reached your limit of workspaces."],
  member_workspaces_reached: [409, "conflict", "This person has reached their limit of workspaces."],
  embed_keys_cap: [409, "conflict", "This tenant has reached its limit of active keys."],
  older_process: [409, "conflict", "An older Keyrack process is still connected. Finish the upgrade first."],
  setup_done: [409, "conflict", "This server already has an owner. Log in instead."],
  setup_off: [409, "conflict", "Setup is off. Start the server with KEYRACK_BOOTSTRAP=on first."],
  workspace_moved: [
    409,
    "conflict",
    "This credential is for another workspace. If you have switched workspaces, reload the page.",
  ],
  idempotency_in_flight: [409, "conflict", "A request with this Idempotency-Key is still in progress.", 1],
  // 413, 415, 422
  payload_too_large: [413, "payload_too_large", "The request body is too large."],
  snapshot_too_large: [
    413,
    "snapshot_too_large",
    "This snapshot is too large for one response. Send max_keys to page it, or narrow it with tenant_id.",
  ],
  unsupported_media_type: [
    415,
    "unsupported_media_type",
    "Send the body as application/json, without a content encoding.",
  ],
  idempotency_mismatch: [422, "idempotency_mismatch", "This Idempotency-Key was used with another request."],
  // 429, 5xx
  rate_limited: [429, "rate_limited", "Too many requests."],
  login_disabled: [429, "rate_limited", "Too many failed logins. Reset the password to log in again."],
  invite_mails_spent: [
    429,
    "rate_limited",
    "You have reached the daily limit for invitations, to this address or in total.",
  ],
  internal_error: [
    500,
    "internal_error",
    "Something went wrong. The server log has the details under this request id.",
  ],
  search_indexing: [503, "unavailable", "The search index is being built. Try again shortly.", 5],
  unavailable: [503, "unavailable", "The service is temporarily unavailable. Try again shortly."],
  overloaded: [503, "unavailable", "The service is overloaded. Try again shortly."],
  read_only: [503, "unavailable", "The service is read-only until its storage is repaired. Nothing was written."],
  storage_full: [503, "unavailable", "The storage is full. Nothing was written.", 60],
  portal_not_built: [503, "unavailable", "The portal was not built. Run npm ci in the checkout.", 60],
  pages_not_built: [503, "unavailable", "The dashboard was not built. Run npm ci in the checkout."],
  credential_changed: [
    503,
    "unavailable",
    "This credential or its permissions changed while the request was running. Try again.",
  ],
  share_spent: [429, "rate_limited", "This workspace has reached a usage limit."],
  share_full: [503, "unavailable", "This workspace has too many requests in progress. Try again shortly."],
  mail_queue_full: [503, "unavailable", "Too many invitation emails are waiting to be sent. Try again later.", 60],
  stopping: [503, "unavailable", "The service is stopping. Try again shortly."],
} as const satisfies Record<string, Row>;

export type FailureName = keyof typeof failures;
export type Detail = { path: string; message: string };

/** Details of one failure. `headers` are sent over HTTP only, and never contain caller input. */
type FailureExtra = {
  details?: Detail[];
  missing_scopes?: string[];
  retryAfterSeconds?: number;
  /** The limit that refuses. */
  rateLimit?: RateLimitState;
  /** The connection must not be used again: what the request still sends is not read. */
  closes?: true;
  headers?: Record<string, string>;
};

/** A path may hold names that the client made up. */
const PATH_MAX = 200;

/**
 * A failure as an exception. `status`, `code` and `message` come from the table. It has no stack: its name identifies
 * it, and in a flood of refused requests stacks would cost most. Other errors keep theirs. bench: parts/refused
 */
export class Failure extends Error {
  readonly failure: FailureName;
  readonly status: number;
  readonly code: Code;
  readonly extra: FailureExtra;
  readonly retryAfterSeconds: number | undefined;

  constructor(name: FailureName, extra: FailureExtra = {}) {
    const [status, code, message, retryAfter]: Row = failures[name];
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(message);
    Error.stackTraceLimit = stackTraceLimit;
    this.name = "Failure";
    this.failure = name;
    this.status = status;
    this.code = code;
    this.extra = extra;
    this.retryAfterSeconds = extra.retryAfterSeconds ?? retryAfter ?? (status === 503 ? RETRY_AFTER_503 : undefined);
  }

  /** The wire body: `{error: {code, message, details?, missing_scopes?}}`. Details name fields, so they have a path. */
  body(): { error: { code: Code; message: string; details?: Detail[]; missing_scopes?: string[] } } {
    const { missing_scopes } = this.extra;
    const details = this.extra.details
      ?.filter(({ path }) => path !== "")
      .map(({ path, message }) => ({ path: path.slice(0, PATH_MAX), message }));
    return {
      error: {
        code: this.code,
        message: this.message,
        ...(details?.length && { details }),
        ...(missing_scopes && { missing_scopes }),
      },
    };
  }
}

export function fail(name: FailureName, extra?: FailureExtra): Failure {
  return new Failure(name, extra);
}

/** A failure of one field. */
export function failField(name: FailureName, path: string, message: string): Failure {
  return new Failure(name, { details: [{ path, message }] });
}
