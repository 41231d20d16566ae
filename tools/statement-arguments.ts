// Arguments for the functions that build SQL: with each combination that changes the statement.
import type { AuditWalk } from "../src/store/queries/audit.ts";
import type { BulkSelection } from "../src/store/queries/key-bulk.ts";
import type { SeriesQuery } from "../src/store/usage/series.ts";
import type { StoppedKey } from "../src/store/queries/restore.ts";

export const workspace_id = "w";
export const after = { created_at: 1, id: "i" };
export const leak = { workspace_id, env: "live", now: 2, after: { at: 1, id: "i" }, examined: 1, max: 1 } as const;
const selected = { workspace_id, project_id: "p", defaults: "[]", limit: 1 };
export const selections = [
  { ...selected, env: null, tenants: [], tenantRules: false, caps: 0 },
  { ...selected, env: "live", tenants: ["t", "u"], tenantRules: true, caps: 7 },
] as const;
const seen = { first_seen_at: 1, last_seen_at: 1 };
export const keyLastUse = { key_id: "k", workspace_id: "w", at: 1, network: null, user_agent: "curl", node_id: "n" };

export const keyNetwork = {
  ...seen,
  workspace_id,
  key_id: "k",
  day: 1,
  network: "n",
  outcome: "refused" as const,
  requests: 1,
};
export const day = { workspace_id, key_id: "k", day: 1, requests: 1, errors: 0 };
export const month = { workspace_id, month: 1, env: "live", tenant_id: "t", project_id: "p", requests: 1 } as const;
export const scopes = [
  { workspace_id, project_id: "p" },
  { workspace_id, project_id: "p", tenant_id: "t" },
];
export const revocation = { cause: "tenant_deleted", reason: "tenant deleted", revoked_at: 1 } as const;
const inState = {
  workspace_id,
  projects: ["p"],
  project_id: "p",
  tenant_id: "t",
  env: "live",
  now: 1,
  until: 2,
} as const;
export const bulk: BulkSelection[] = [
  { workspace_id, action: "rotate", now: 1, before: "k" },
  {
    ...inState,
    action: "enable",
    before: "k",
    ids: ["i"],
    tenant_ids: ["t", "u"],
    scope: "s",
    prefix: "kr",
    state: "quarantined",
    created_before: 2,
    created_after: 1,
    unused_since: 1,
  },
  { workspace_id, action: "disable", now: 1, before: "k", tenant_ids: ["t"], state: "expired" },
  { workspace_id, action: "revoke", now: 1, before: "k", tenant_ids: ["t"], confinedTo: "test" },
  { workspace_id, action: "cap_expiry", now: 1, before: "k", lives: { max: [{ id: "p", ms: 1 }], earliest: 1 } },
];
export const range = { after, upTo: after };
export const auditFilter = {
  actions: ["api_key.created"],
  actor_type: "user",
  actor_id: "u",
  isVisible: true,
} as const;
const auditWalks: AuditWalk[] = [
  { by: "chain" },
  { by: "visible" },
  ...(["target_id", "actor_id", "actor_type", "action"] as const).map((by) => ({ by, value: "v" })),
];
export const auditSlices = auditWalks.map((walk) => ({ workspace_id, walk, after_seq: 0, before_seq: 9 }));
export const usageGroup = {
  workspace_id,
  kind: "tag:t",
  project_id: "p",
  env: "live",
  tenant: "t",
  name: "n",
} as const;
export const rollup = { group_id: 1, grain: 1, start: 1, outcome: "o", requests: 1, errors: 0, units: 1, detail: "" };
export const series: SeriesQuery = {
  workspace_id,
  base: { ...usageGroup, projects: null },
  listed: { ...usageGroup, projects: null },
  group_by: "tenant",
  outcome: "allowed",
  top: 1,
  latency: true,
  range: { edges: [0, 3_600_000], grain: 2 },
  now: 1,
  head: {},
};
export const stopped: StoppedKey[] = [
  { id: "k", kind: "api_keys" },
  { id: "s", kind: "secret_keys" },
];
