// The policy feed's JSON, built by SQLite (bench: feed/snapshot). Not portable, so policy.postgres.ts is its
// counterpart; a contract test compares their output byte for byte.
import { SQLITE_LIMIT } from "../engine/statement.ts";
import type { Query } from "../engine/tx.ts";
import {
  fieldsFor,
  keysWith,
  rateLimits,
  REASON,
  scopesWithin,
  servedTo,
  withTenants,
  type ChangesParams,
  type ChunkParams,
  type PolicySelection,
  type SqlFilter,
} from "./policy-params.ts";

// Most keys never expire, so null comes first.
const EXPIRES_AT = `case when k.expires_at is null then 'null' else '"'
  || strftime('%Y-%m-%dT%H:%M:%S', k.expires_at / 1000, 'unixepoch') || printf('.%03dZ"', k.expires_at % 1000) end`;

// Arguments of concat(), which copies each text once; every || copies the text so far.
const IDENTITY = `k.id, '","tenant_id":"', k.tenant_id, '","env":"', k.env,
  '","lookup_hash":"', k.lookup_hash, '","display_prefix":"', k.display_prefix`;

const SCOPES_CUT = "scopes_within(k.scopes, p.scopes)";

/** An entry after its identity, for nodes with these capabilities. */
function rulesFor(selection: PolicySelection): string {
  const { tenantRules } = selection;
  const rules = `'","scopes":', ${scopesWithin(tenantRules, SCOPES_CUT)}, ',"expires_at":', ${EXPIRES_AT},
    ',"rate_limits":', ${rateLimits(tenantRules, "?")}`;
  return [rules, ...fieldsFor(selection), "'}'"].join(", ");
}

/** Conditions on environment and tenants. The text does not depend on how many tenants there are. */
function filterBy(env: string | null, tenants: readonly string[]): SqlFilter {
  const ofEnv = env === null ? "" : "and k.env = ?";
  const ofTenants = tenants.length === 0 ? "" : "and k.tenant_id in (select value from json_each(?))";
  const values = [...(env === null ? [] : [env]), ...(tenants.length === 0 ? [] : [JSON.stringify(tenants)])];
  return { sql: `${ofEnv} ${ofTenants}`, values };
}

/** Up to `limit` entries after the id `after`, joined by commas. The last id is read from them: `max(id)` is slower. */
export function chunkQuery(params: ChunkParams): Query {
  const { workspace_id, project_id, env, tenants, after, limit, expiredBefore, defaults, tenantRules } = params;
  const filter = filterBy(env, tenants);
  const sql = `${withTenants(["?", "?"])} select cast(group_concat(entry, ',') as blob) as entries, count(*) as n, min(expires_at) as first_expiry
    from (
      select k.expires_at, concat('{"key_id":"', ${IDENTITY}, ${rulesFor(params)}) as entry
      from ${keysWith(tenantRules)}
      where k.project_id = ? and k.id > ? and ${servedTo(params)} and (k.expires_at is null or k.expires_at >= ?)
        and k.tenant_id not in (select id from cascades)
        ${filter.sql}
      order by k.id
      ${SQLITE_LIMIT}
    )`;
  const { values } = filter;
  return { sql, values: [workspace_id, workspace_id, defaults, project_id, after, expiredBefore, ...values, limit] };
}

/** Changes in (since, upTo], oldest first. */
export function changesQuery(params: ChangesParams): Query {
  const { workspace_id, project_id, env, tenants, since, upTo, limit, defaults, tenantRules } = params;
  const filter = filterBy(env, tenants);
  const sql = `${withTenants(["?", "?"])} select k.policy_version, cast(case
      when ${servedTo(params)} then concat('{"change":"upsert","key_id":"', ${IDENTITY}, ${rulesFor(params)})
      else concat('{"change":"remove","key_id":"', ${IDENTITY}, '","reason":"', ${REASON}, '"}')
    end as blob) as entry
    from ${keysWith(tenantRules)}
    where k.project_id = ? and k.policy_version > ? and k.policy_version <= ?
      ${filter.sql}
    order by k.policy_version, k.id
    ${SQLITE_LIMIT}`;
  const { values } = filter;
  return { sql, values: [workspace_id, workspace_id, defaults, project_id, since, upTo, ...values, limit] };
}
