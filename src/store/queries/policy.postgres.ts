// The policy feed's JSON, built by PostgreSQL. A contract test compares it with policy.sqlite.ts byte for byte.
// bench: feed/snapshot
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

// Whole seconds times an interval are exact up to the year 9999; milliseconds are not.
const EXPIRES_AT = `coalesce('"' || to_char(timestamp 'epoch' + (k.expires_at / 1000) * interval '1 second',
  'YYYY-MM-DD"T"HH24:MI:SS') || '.' || lpad((k.expires_at % 1000)::text, 3, '0') || 'Z"', 'null')`;

const IDENTITY = `k.id || '","tenant_id":"' || k.tenant_id || '","env":"' || k.env
  || '","lookup_hash":"' || k.lookup_hash || '","display_prefix":"' || k.display_prefix`;

const SCOPES_CUT = `(select '[' || coalesce(string_agg(to_json(held.value)::text, ',' order by held.i), '') || ']'
  from json_array_elements_text(k.scopes::json) with ordinality held (value, i)
  where held.value in (select json_array_elements_text(p.scopes::json)))`;

/** An entry after its identity, for nodes with these capabilities. */
function rulesFor(selection: PolicySelection): string {
  const { tenantRules } = selection;
  const rules = `'","scopes":' || ${scopesWithin(tenantRules, SCOPES_CUT)} || ',"expires_at":' || ${EXPIRES_AT}
    || ',"rate_limits":' || ${rateLimits(tenantRules, "$1")}`;
  return [rules, ...fieldsFor(selection), "'}'"].join(" || ");
}

/** Conditions on environment and tenants, with parameters numbered from `$first`. */
function filterBy(env: string | null, tenants: readonly string[], first: number): SqlFilter {
  const values: string[] = [];
  const sql: string[] = [];
  const next = (value: string): string => `$${first - 1 + values.push(value)}`;
  if (env !== null) sql.push(`and k.env = ${next(env)}`);
  if (tenants.length > 0)
    sql.push(`and k.tenant_id = any(array(select jsonb_array_elements_text(${next(JSON.stringify(tenants))}::jsonb)))`);
  return { sql: sql.join(" "), values };
}

export function chunkQuery(params: ChunkParams): Query {
  const { workspace_id, project_id, env, tenants, after, limit, expiredBefore, defaults, tenantRules } = params;
  const filter = filterBy(env, tenants, 7);
  const sql = `${withTenants(["$6", "$6"])} select string_agg(entry, ',' order by id) as entries, count(*) as n, min(expires_at) as first_expiry
    from (
      select k.id, k.expires_at, '{"key_id":"' || ${IDENTITY} || ${rulesFor(params)} as entry
      from ${keysWith(tenantRules)}
      where k.project_id = $2 and k.id > $3 and ${servedTo(params)} and (k.expires_at is null or k.expires_at >= $4)
        and k.tenant_id not in (select id from cascades)
        ${filter.sql}
      order by k.id
      limit $5
    ) as page`;
  return { sql, values: [defaults, project_id, after, expiredBefore, limit, workspace_id, ...filter.values] };
}

export function changesQuery(params: ChangesParams): Query {
  const { workspace_id, project_id, env, tenants, since, upTo, limit, defaults, tenantRules } = params;
  const filter = filterBy(env, tenants, 7);
  const sql = `${withTenants(["$6", "$6"])} select k.policy_version, case
      when ${servedTo(params)} then '{"change":"upsert","key_id":"' || ${IDENTITY} || ${rulesFor(params)}
      else '{"change":"remove","key_id":"' || ${IDENTITY} || '","reason":"' || ${REASON} || '"}'
    end as entry
    from ${keysWith(tenantRules)}
    where k.project_id = $2 and k.policy_version > $3 and k.policy_version <= $4 ${filter.sql}
    order by k.policy_version, k.id
    limit $5`;
  return { sql, values: [defaults, project_id, since, upTo, limit, workspace_id, ...filter.values] };
}
