// Maps API routes to commands, `noun verb`. Flags, arguments and help come from the endpoint declaration; this table
// adds only what that lacks. A route that is neither here nor in `calledElsewhere` fails test/cli/commands.test.ts.

import type { CommandSpec } from "../src/cli/api/command-spec.ts";

export type CommandRow = Pick<CommandSpec, "quiet" | "quietHelp" | "secret" | "columns"> & {
  command: `${string} ${string}`;
  /** Where those made from the first flags would not work, or not show what matters. */
  examples?: [string, string];
};

const PROJECT = ["id", "slug", "name", "created_at"];
const TENANT = ["id", "external_id", "name", "created_at"];
const PLAN = ["id", "slug", "name", "tenants", "max_keys", "key_ttl_days", "created_at"];
const KEY = ["id", "display_prefix", "env", "name", "tenant_id", "status", "expires_at", "revoked_at"];
const SECRET_KEY = ["id", "display_prefix", "env", "name", "power", "last_used_at", "expires_at", "revoked_at"];
const NODE =
  "node_id project_id env_scope version lag live late degraded missing_caps withheld_keys sdk last_seen_at".split(" ");
const EMBED = "--project-id $KEYRACK_PROJECT_ID --env live --tenant-id $KEYRACK_TENANT_ID";
const INVITE = ["id", "email", "role", "expires_at", "accepted_at", "revoked_at"];

export const commandMap: Record<string, CommandRow> = {
  "POST /v1/workspaces": {
    command: "workspace create",
    quiet: "secret_key.key",
    secret: "secret_key.key",
    examples: [
      'keyrack workspace create --name "Acme" --slug acme --save',
      'keyrack workspace create --name "Acme" --slug acme --data-dir /var/lib/keyrack --quiet',
    ],
  },
  "GET /v1/workspace": { command: "workspace show" },
  "GET /v1/overview": {
    command: "workspace overview",
    quiet: "keys.active",
    quietHelp: "print only the number of active keys",
  },
  "PATCH /v1/workspace": { command: "workspace update" },
  "POST /v1/projects": { command: "project create" },
  "GET /v1/projects": { command: "project list", columns: PROJECT },
  "GET /v1/projects/{id}": { command: "project show" },
  "PATCH /v1/projects/{id}": { command: "project update" },
  "DELETE /v1/projects/{id}": { command: "project delete" },
  "GET /v1/projects/{id}/key_policy/report": {
    command: "project key-policy-report",
    quiet: "active_keys",
    quietHelp: "print only the number of active keys",
  },
  "POST /v1/tenants": { command: "tenant create" },
  "GET /v1/tenants": { command: "tenant list", columns: TENANT },
  "GET /v1/tenants/{id}": { command: "tenant show" },
  "PATCH /v1/tenants/{id}": {
    command: "tenant update",
    examples: [
      "keyrack tenant update ID --plan-id PLAN --wait",
      "keyrack tenant update ID --allowed-cidrs 203.0.113.0/24 --wait",
    ],
  },
  "POST /v1/tenants/{id}/suspend": { command: "tenant suspend" },
  "POST /v1/tenants/{id}/resume": { command: "tenant resume" },
  "DELETE /v1/tenants/{id}": { command: "tenant delete" },
  "POST /v1/tenants/{id}/embed_tokens/revoke": { command: "tenant revoke-embed-tokens" },
  "POST /v1/plans": { command: "plan create" },
  "GET /v1/plans": { command: "plan list", columns: PLAN },
  "GET /v1/plans/{id}": { command: "plan show" },
  "PATCH /v1/plans/{id}": {
    command: "plan update",
    examples: ["keyrack plan update ID --max-keys 50", "keyrack plan update ID --scopes read --wait"],
  },
  "DELETE /v1/plans/{id}": { command: "plan delete" },
  "POST /v1/quota_grants/{id}/void": { command: "quota void" },
  "POST /v1/keys": {
    command: "key create",
    quiet: "key",
    secret: "key",
    examples: [
      "keyrack key create --project-id $KEYRACK_PROJECT_ID --tenant-id $KEYRACK_TENANT_ID --env live --quiet",
      "keyrack key create --from-csv keys.csv --project-id $KEYRACK_PROJECT_ID --env live",
    ],
  },
  "GET /v1/keys": { command: "key list", columns: KEY },
  "GET /v1/keys/{id}": { command: "key show" },
  "PATCH /v1/keys/{id}": {
    command: "key update",
    examples: [
      "keyrack key update ID --allowed-cidrs 203.0.113.0/24 --ip-mode report",
      "keyrack key update ID --ip-mode enforce --wait",
    ],
  },
  "POST /v1/keys/{id}/rotate": { command: "key rotate", quiet: "key", secret: "key" },
  "POST /v1/keys/{id}/revoke": { command: "key revoke" },
  "POST /v1/keys/{id}/disable": { command: "key disable" },
  "POST /v1/keys/{id}/enable": { command: "key enable" },
  "GET /v1/keys/{id}/usage": { command: "key usage", quiet: "key_id" },
  "GET /v1/keys/{id}/ip_report": { command: "key ip-report", quiet: "key_id" },
  "POST /v1/secret_keys": {
    command: "secret-key create",
    quiet: "key",
    secret: "key",
    examples: [
      "keyrack secret-key create --env live --permissions verify",
      "keyrack secret-key create --env live --workspace-id ID --data-dir /var/lib/keyrack --quiet",
    ],
  },
  "GET /v1/secret_keys": { command: "secret-key list", columns: SECRET_KEY },
  "GET /v1/secret_keys/{id}": { command: "secret-key show" },
  "POST /v1/secret_keys/{id}/rotate": { command: "secret-key rotate", quiet: "key", secret: "key" },
  "POST /v1/secret_keys/{id}/revoke": { command: "secret-key revoke" },
  "GET /v1/environments": {
    command: "environment list",
    quiet: "name",
    quietHelp: "print only the names",
    columns: ["name", "billable"],
  },
  "GET /v1/members": { command: "member list", quiet: "user_id", columns: ["user_id", "email", "role", "created_at"] },
  "PATCH /v1/members/{userId}": { command: "member update", quiet: "user_id" },
  "DELETE /v1/members/{userId}": {
    command: "member delete",
    quiet: "user_id",
    examples: ["keyrack member delete USER_ID", "keyrack member delete USER_ID --revoke all"],
  },
  "GET /v1/members/{userId}/left_behind": { command: "member left-behind", quiet: "user_id" },
  "POST /v1/invites": { command: "invite create", secret: "token" },
  "GET /v1/invites": { command: "invite list", columns: INVITE },
  "POST /v1/invites/{id}/revoke": { command: "invite revoke" },
  "POST /v1/auth/invites/accept": { command: "invite accept", quiet: "workspace_id" },
  "GET /v1/auth/sessions": {
    command: "session list",
    columns: ["id", "display_prefix", "current", "last_seen_at", "expires_at"],
  },
  "DELETE /v1/auth/sessions/{id}": { command: "session revoke" },
  "POST /v1/auth/sessions/current/workspace": { command: "session switch" },
  "GET /v1/nodes": {
    command: "node list",
    quiet: "node_id",
    columns: NODE,
    examples: ["keyrack node list --view fleet", "keyrack node list --project-id $KEYRACK_PROJECT_ID"],
  },
  "GET /v1/propagation": {
    command: "node acks",
    quiet: "complete",
    quietHelp: "print only true if every live node has acknowledged the version, else false",
  },
  "POST /v1/embed_tokens": {
    command: "embed-token create",
    quiet: "token",
    secret: "token",
    examples: [
      `keyrack embed-token create ${EMBED} --quiet`,
      `keyrack embed-token create ${EMBED} --scopes keys:read --scopes key_scope:orders:read`,
    ],
  },
  "GET /v1/usage/billing": {
    command: "usage billing",
    quiet: "month",
    quietHelp: "print only the months",
    columns: ["month", "active_tenants"],
  },
  "GET /v1/usage/tenants": {
    command: "usage tenants",
    quiet: "tenant_id",
    columns: ["month", "tenant_id", "project_id", "env", "request_count", "last_seen_at"],
  },
  "GET /v1/usage/export": {
    command: "usage export",
    examples: [
      "keyrack usage export --from 2026-10-01T00:00Z --to 2026-11-01T00:00Z --format csv --out october.csv",
      "keyrack usage export --from 2026-11-15T00:00Z --to 2026-11-16T00:00Z --bucket hour --by key",
    ],
  },
  "GET /v1/usage/series": {
    command: "usage series",
    quiet: "total.total.requests",
    quietHelp: "print only the total number of requests",
    examples: [
      "keyrack usage series --bucket day --group-by tenant --time-zone Europe/Berlin",
      "keyrack usage series --group-by outcome --json",
    ],
  },
  "GET /v1/audit_logs": {
    command: "audit list",
    quiet: "id",
    columns: ["seq", "occurred_at", "action", "actor_type", "target_type", "target_id"],
    examples: ["keyrack audit list --tail 20", "keyrack audit list --deployment --data-dir /var/lib/keyrack"],
  },
  "GET /v1/audit_logs/export": {
    command: "audit export",
    examples: [
      "keyrack audit export --out audit.jsonl",
      "keyrack audit export --action 'api_key.*' --from 2026-11-01T00:00Z > keys.jsonl",
    ],
  },
};

/** Routes that are not a command of their own, and what calls them instead. */
export const calledElsewhere: Record<string, string> = {
  "GET /v1/audit_logs/chain": "keyrack audit verify",
  "GET /v1/audit_logs/checkpoint": "keyrack audit checkpoint",
  "GET /healthz": "keyrack status",
  "GET /readyz": "keyrack status",
  "GET /status": "keyrack status",
  "GET /openapi.json": "keyrack openapi",
  "GET /.well-known/jwks.json": "vendors' verifiers",
  "GET /embed/portal.js": "browsers",
  "GET /": "browsers",
  "GET /assets/{file}": "browsers",
  "POST /v1/auth/sessions": "keyrack login",
  "DELETE /v1/auth/sessions/current": "keyrack logout",
  "GET /v1/auth/me": "keyrack whoami",
  "PATCH /v1/auth/me": "the web pages",
  "POST /v1/auth/me/password": "the web pages",
  "GET /v1/instance": "the web pages",
  "POST /v1/keys/lookup": "keyrack key lookup",
  "GET /v1/keys/{id}/quotas": "keyrack quota show",
  "GET /v1/tenants/{id}/quotas": "keyrack quota show",
  "GET /v1/keys/{id}/quotas/{quota_id}/grants": "keyrack quota grants",
  "GET /v1/tenants/{id}/quotas/{quota_id}/grants": "keyrack quota grants",
  "POST /v1/keys/{id}/quotas/{quota_id}/grants": "keyrack quota grant",
  "POST /v1/tenants/{id}/quotas/{quota_id}/grants": "keyrack quota grant",
  "POST /v1/bulk/keys": "keyrack key bulk",
  "GET /v1/self": "keyrack self show",
  "POST /v1/self/revoke": "keyrack self revoke",
  "POST /v1/self/rotate": "keyrack self rotate",
  "GET /v1/setup": "the web pages",
  "POST /v1/setup": "the web pages, with the link of keyrack setup link",
  "POST /v1/auth/users": "the web pages",
  "POST /v1/auth/email_verifications": "the web pages",
  "POST /v1/auth/email_verifications/consume": "the web pages",
  "POST /v1/auth/password_resets": "the web pages",
  "POST /v1/auth/password_resets/consume": "the web pages",
};

/** Planes that only machines and browsers call. */
export const machinePaths = /^\/(v1\/(embed|policy|ratelimit|idempotency|ingest|webhooks)\/)/;
