// Row types. Columns are named like API fields where they mean the same. Booleans are 0 or 1, times are integer
// milliseconds, JSON columns are text: both dialects return the same values.
import type { Env } from "../../kernel/credentials.ts";
import type { IpMode } from "../../kernel/network/cidr.ts";
import type { MachineTables } from "./tables-machine.ts";
import type { UsageTables } from "./tables-usage.ts";
import type { PeopleTables } from "./tables-people.ts";
import type { QuotaTables } from "./tables-quotas.ts";
import type { TenantTables } from "./tables-tenants.ts";

export type * from "./tables-machine.ts";
export type * from "./tables-usage.ts";
export type * from "./tables-people.ts";
export type * from "./tables-quotas.ts";
export type * from "./tables-tenants.ts";

/** What the deployment remembers by name. */
export type Fact =
  | "master_key_fingerprint"
  | "bootstrap_token_hash"
  | "audit_origin_host"
  | "checkpoint_key_id"
  | "embed_keys_made"
  | "deployment_id"
  | "last_backup"
  | "backup_failure"
  | "last_restore_test"
  | "restore_test_failure"
  | "restore_pending"
  | "secret_key_makers"
  | "key_policy_run"
  | "presence"
  | "meter"
  | "meter_source"
  | "settings"
  | "steady_time"
  | "quick_check"
  /** A row to lock (store/queries/series.ts). */
  | "usage_rollups_lock";

type DeploymentTable = { name: Fact; value: string };

export type WorkspaceRow = {
  id: string;
  name: string;
  slug: string;
  billing_email: string | null;
  embed_origins: string;
  /** Excludes tenants that test credentials created. */
  tenant_count: number;
  test_tenant_count: number;
  created_at: number;
  updated_at: number;
  created_by: string | null;
};

export type ProjectRow = {
  id: string;
  workspace_id: string;
  name: string;
  slug: string;
  policy_version: number;
  min_delta_version: number;
  default_rate_limits: string;
  /** JSON; null: the defaults. */
  key_policy: string | null;
  scope_catalogue: string;
  /** When idle_revoke_days of the policy last changed. */
  idle_changed_at: number | null;
  /** Environment of the credential that created it; it counts in that environment's limit. */
  created_env: Env;
  created_at: number;
  updated_at: number;
  deleted_at: number | null;
  /** Capabilities of the policy feed that its keys have ever needed, as a bit mask. */
  features: number;
  key_prefix: string;
  /** All that it has used, as a JSON list, the current one first. */
  key_prefixes: string;
};

type KeyPrefixRow = { prefix: string; workspace_id: string; claimed_at: number; created_env: Env };

type RevokedCause = "revoked" | "tenant_deleted" | "project_deleted";

export type ApiKeyRow = {
  id: string;
  workspace_id: string;
  project_id: string;
  tenant_id: string;
  env: Env;
  lookup_hash: string;
  display_prefix: string;
  name: string | null;
  scopes: string;
  meta: string;
  rate_limits: string | null;
  expires_at: number | null;
  requested_expires_at: number | null;
  revoked_at: number | null;
  revoked_reason: string | null;
  revoked_cause: RevokedCause | null;
  quarantined_at: number | null;
  quarantine_reason: string | null;
  rotated_from: string | null;
  created_at: number;
  last_used_at: number | null;
  policy_version: number;
  disabled_at: number | null;
  disabled_reason: string | null;
  /** When it was last enabled. */
  enabled_at: number | null;
  /** A JSON list of networks; null: the tenant's, with its mode. */
  allowed_cidrs: string | null;
  ip_mode: IpMode;
  /** JSON; null: none of its own. */
  quotas: string | null;
  /** The first key of the rotations that led to this one; null: itself. */
  lineage_id: string | null;
};

/** A deleted project or tenant whose keys are still being marked as revoked. */
export type CascadeRow = {
  id: string;
  workspace_id: string;
  cause: "tenant_deleted" | "project_deleted";
  reason: string;
  revoked_at: number;
};

export type SecretKeyRow = {
  id: string;
  workspace_id: string;
  env: Env;
  lookup_hash: string;
  display_prefix: string;
  name: string | null;
  meta: string;
  owner_scope: number;
  expires_at: number | null;
  requested_expires_at: number | null;
  revoked_at: number | null;
  revoked_reason: string | null;
  quarantined_at: number | null;
  quarantine_reason: string | null;
  rotated_from: string | null;
  created_at: number;
  last_used_at: number | null;
  /** The person who minted it; null for keys minted by software. */
  created_by: string | null;
  /** JSON lists; null: everything that its role may, in every project. */
  permissions: string | null;
  project_ids: string | null;
};

type PolicyVersionRow = { project_id: string; version: number; changed_at: number };

export type ActorType = "user" | "secret_key" | "embed_token" | "bootstrap" | "scanner" | "system" | "api_key";

export type AuditLogRow = {
  workspace_id: string;
  seq: number;
  id: string;
  occurred_at: number;
  actor_type: ActorType;
  actor_id: string | null;
  action: string;
  target_type: string;
  target_id: string | null;
  payload: string;
  prev_hash: string;
  hash: string;
};

export type AuditHeadRow = { workspace_id: string; seq: number; hash: string; occurred_at: number };

export type AuditCheckpointRow = {
  workspace_id: string;
  seq: number;
  note: string;
  frontier: string;
  created_at: number;
};

/**
 * The last verification of a whole chain: the first `seq` rows were verified. `broken_seq` and `reason` say that it, or
 * a later one, found a break.
 */
export type AuditMarkRow = {
  workspace_id: string;
  seq: number;
  hash: string;
  frontier: string;
  verified_at: number;
  broken_seq: number | null;
  reason: string | null;
  signature: string;
};

export type SigningKeyRow = {
  id: string;
  purpose: "checkpoint" | "embed";
  kid: string;
  public_key: string;
  sealed_private_key: Uint8Array | null;
  created_at: number;
  published_at: number;
  active_from: number | null;
  retired_at: number | null;
  removed_at: number | null;
};

/** `origin` is normalised as browsers send it. */
type EmbedOriginRow = { origin: string; workspace_id: string };

type IdempotencyReplayRow = {
  key_hash: string;
  fingerprint: string;
  status: number;
  sealed_body: Uint8Array;
  created_at: number;
  expires_at: number;
};

/** A leaked test credential, and when its owners were notified. */
type LeakNoticeRow = { credential_id: string; workspace_id: string; noticed_at: number };

/** A word, name, scope or day that a key or tenant is found by. `newest` is -created_at. */
export type SearchTermRow = { workspace_id: string; kind: string; term: string; newest: number; id: string };

/** The last indexed record of a project or workspace. */
type SearchProgressRow = { id: string; version: number; last_id: string };

type CoreTables = {
  deployment: DeploymentTable;
  workspaces: WorkspaceRow;
  projects: ProjectRow;
  key_prefixes: KeyPrefixRow;
  api_keys: ApiKeyRow;
  cascades: CascadeRow;
  search_terms: SearchTermRow;
  search_progress: SearchProgressRow;
  secret_keys: SecretKeyRow;
  policy_versions: PolicyVersionRow;
  audit_log: AuditLogRow;
  audit_heads: AuditHeadRow;
  audit_checkpoints: AuditCheckpointRow;
  audit_marks: AuditMarkRow;
  signing_keys: SigningKeyRow;
  embed_origins: EmbedOriginRow;
  leak_notices: LeakNoticeRow;
  kept_answers: IdempotencyReplayRow;
};

export type Tables = CoreTables & MachineTables & PeopleTables & QuotaTables & TenantTables & UsageTables;
