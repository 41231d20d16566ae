// Row types of quotas. `subject_id` is a tenant, or the first key of a lineage of rotations.
import type { Env } from "../../kernel/credentials.ts";

/** Names a balance. `calendar` is refill, day and time zone: what is spent belongs to the periods of one calendar. */
export type BalanceKey = { subject_id: string; env: Env; quota_id: string; calendar: string };

/**
 * `taken`: all units taken in the period that began at `period_start`; `from_amount`: those of its own amount. Both
 * include what processes hold and have not spent.
 */
export type QuotaBalanceRow = {
  subject_id: string;
  env: Env;
  quota_id: string;
  calendar: string;
  workspace_id: string;
  period_start: number;
  taken: number;
  from_amount: number;
  used_at: number;
};

/** Units that a process holds: unspent ones, those in leases, and how many of both came from grants. */
export type QuotaHoldingRow = {
  subject_id: string;
  env: Env;
  quota_id: string;
  calendar: string;
  process_id: string;
  period_start: number;
  unspent: number;
  held: number;
  granted: number;
  expires_at: number;
};

/** A process that holds units, while it lives. */
export type QuotaProcessRow = { process_id: string; expires_at: number };

export type QuotaGrantRow = {
  subject_id: string;
  env: Env;
  quota_id: string;
  id: string;
  workspace_id: string;
  tenant_id: string;
  key_id: string | null;
  units: number;
  remaining: number;
  expires_at: number | null;
  reason: string | null;
  reference: string | null;
  voided_at: number | null;
  created_at: number;
};

export type QuotaTables = {
  quota_balances: QuotaBalanceRow;
  quota_holdings: QuotaHoldingRow;
  quota_processes: QuotaProcessRow;
  quota_grants: QuotaGrantRow;
};
