// The policy feed's JSON, built by PostgreSQL. A contract test compares it with policy.sqlite.ts byte for byte.
// bench: feed/snapshot
import type { Query } from "../engine/statement.ts";
import { fieldsFor, REASON, servedTo, withSuspended, type ChangesParams, type ChunkParams } from "./policy-params.ts";

// Whole seconds times an interval are exact up to the year 9999; milliseconds are not.
const EXPIRES_AT = `coalesce('"' || to_char(timestamp 'epoch' + (expires_at / 1000) * interval '1 second',
  'YYYY-MM-DD"T"HH24:MI:SS') || '.' || lpad((expires_at % 1000)::text, 3, '0') || 'Z"', 'null')`;

const IDENTITY = `id || '","tenant_id":"' || tenant_id || '","env":"' || env
  || '","lookup_hash":"' || lookup_hash || '","display_prefix":"' || display_prefix`;

/** An entry after its identity, for nodes with these capabilities. */
function rulesFor(caps: number): string {
  const rules = `'","scopes":' || scopes || ',"expires_at":' || ${EXPIRES_AT}
    || ',"rate_limits":' || coalesce(rate_limits, $1)`;
  return [rules, ...fieldsFor(caps), "'}'"].join(" || ");
}

type Filter = { sql: string; values: string[] };

/** Conditions on environment and tenants, with parameters numbered from `$first`. */
function filterBy(env: string | null, tenants: readonly string[], first: number): Filter {
  const params = tenants.map((_id, i) => `$${first + (env === null ? 0 : 1) + i}`);
  const sql = [
    env === null ? "" : `and env = $${first}`,
    params.length > 0 ? `and tenant_id in (${params.join(", ")})` : "",
  ];
  return { sql: sql.join(" "), values: [...(env === null ? [] : [env]), ...tenants] };
}

export function chunkQuery(params: ChunkParams): Query {
  const { workspace_id, project_id, env, tenants, after, limit, expiredBefore, defaults, caps } = params;
  const filter = filterBy(env, tenants, 7);
  const sql = `${withSuspended("$6")} select string_agg(entry, ',' order by id) as entries, count(*) as n, min(expires_at) as first_expiry
    from (
      select id, expires_at, '{"key_id":"' || ${IDENTITY} || ${rulesFor(caps)} as entry
      from api_keys
      where project_id = $2 and id > $3 and ${servedTo(caps)} and (expires_at is null or expires_at >= $4)
        and tenant_id not in (select id from cascades)
        ${filter.sql}
      order by id
      limit $5
    ) as page`;
  return { sql, values: [defaults, project_id, after, expiredBefore, limit, workspace_id, ...filter.values] };
}

export function changesQuery(params: ChangesParams): Query {
  const { workspace_id, project_id, env, tenants, since, upTo, limit, defaults, caps } = params;
  const filter = filterBy(env, tenants, 7);
  const sql = `${withSuspended("$6")} select policy_version, case
      when ${servedTo(caps)} then '{"change":"upsert","key_id":"' || ${IDENTITY} || ${rulesFor(caps)}
      else '{"change":"remove","key_id":"' || ${IDENTITY} || '","reason":"' || ${REASON} || '"}'
    end as entry
    from api_keys
    where project_id = $2 and policy_version > $3 and policy_version <= $4 ${filter.sql}
    order by policy_version, id
    limit $5`;
  return { sql, values: [defaults, project_id, since, upTo, limit, workspace_id, ...filter.values] };
}
