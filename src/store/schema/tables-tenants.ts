// Row types of tenants and their plans.
import type { Env } from "../../kernel/credentials.ts";
import type { IpMode } from "../../kernel/network/cidr.ts";

export type TenantRow = {
  id: string;
  workspace_id: string;
  external_id: string;
  name: string | null;
  meta: string;
  embed_epoch: number;
  /** Environment of the credential that created it; it counts in that environment's limit. */
  created_env: Env;
  created_at: number;
  updated_at: number;
  deleted_at: number | null;
  suspended_at: number | null;
  suspended_reason: string | null;
  resumed_at: number | null;
  plan_id: string | null;
  /** JSON; null: those of its plan, else of the project. */
  rate_limits: string | null;
  /** A JSON list of networks that keys without a list of their own may be used from; empty: any. */
  allowed_cidrs: string;
  ip_mode: IpMode;
  /** JSON; null: those of its plan. */
  quotas: string | null;
};

export type PlanRow = {
  id: string;
  workspace_id: string;
  name: string;
  slug: string;
  /** JSON; null: those of the project. */
  rate_limits: string | null;
  /** JSON list of the scopes that keys may have; null: all. */
  scopes: string | null;
  max_keys: number | null;
  key_ttl_days: number | null;
  /** JSON; null: none. */
  quotas: string | null;
  meta: string;
  /** Tenants on it that are not deleted. */
  tenant_count: number;
  created_at: number;
  updated_at: number;
  deleted_at: number | null;
};

export type TenantTables = {
  tenants: TenantRow;
  plans: PlanRow;
};
