// The policy feed's JSON, built by SQLite (bench: feed/snapshot). Not portable, so policy.postgres.ts is its counterpart; a
// contract test compares their output byte for byte.
import type { Query } from "../engine/statement.ts";
import { fieldsFor, REASON, servedTo, withSuspended, type ChangesParams, type ChunkParams } from "./policy-params.ts";

// Most keys never expire, so null comes first.
const EXPIRES_AT = `case when expires_at is null then 'null' else '"'
  || strftime('%Y-%m-%dT%H:%M:%S', expires_at / 1000, 'unixepoch') || printf('.%03dZ"', expires_at % 1000) end`;

// Arguments of concat(), which copies each text once; every || copies the text so far.
const IDENTITY = `id, '","tenant_id":"', tenant_id, '","env":"', env,
  '","lookup_hash":"', lookup_hash, '","display_prefix":"', display_prefix`;

/** An entry after its identity, for nodes with these capabilities. */
function rulesFor(caps: number): string {
  const rules = `'","scopes":', scopes, ',"expires_at":', ${EXPIRES_AT}, ',"rate_limits":', coalesce(rate_limits, ?)`;
  return [rules, ...fieldsFor(caps), "'}'"].join(", ");
}

// SQLite re-plans a statement at every call that binds a bare `limit ?`, but not when the limit is an expression.
const LIMIT = "limit (? + 0)";

function tenantsIn(tenants: readonly string[]): string {
  return tenants.length === 0 ? "" : `and tenant_id in (${tenants.map(() => "?").join(", ")})`;
}

/** Up to `limit` entries after the id `after`, joined by commas. The last id is read from them: `max(id)` is slower. */
export function chunkQuery(params: ChunkParams): Query {
  const { workspace_id, project_id, env, tenants, after, limit, expiredBefore, defaults, caps } = params;
  const sql = `${withSuspended("?")} select cast(group_concat(entry, ',') as blob) as entries, count(*) as n, min(expires_at) as first_expiry
    from (
      select expires_at, concat('{"key_id":"', ${IDENTITY}, ${rulesFor(caps)}) as entry
      from api_keys
      where project_id = ? and id > ? and ${servedTo(caps)} and (expires_at is null or expires_at >= ?)
        and tenant_id not in (select id from cascades)
        ${env === null ? "" : "and env = ?"} ${tenantsIn(tenants)}
      order by id
      ${LIMIT}
    )`;
  const values = [
    workspace_id,
    defaults,
    project_id,
    after,
    expiredBefore,
    ...(env === null ? [] : [env]),
    ...tenants,
    limit,
  ];
  return { sql, values };
}

/** Changes in (since, upTo], oldest first. */
export function changesQuery(params: ChangesParams): Query {
  const { workspace_id, project_id, env, tenants, since, upTo, limit, defaults, caps } = params;
  const sql = `${withSuspended("?")} select policy_version, case
      when ${servedTo(caps)} then concat('{"change":"upsert","key_id":"', ${IDENTITY}, ${rulesFor(caps)})
      else concat('{"change":"remove","key_id":"', ${IDENTITY}, '","reason":"', ${REASON}, '"}')
    end as entry
    from api_keys
    where project_id = ? and policy_version > ? and policy_version <= ?
      ${env === null ? "" : "and env = ?"} ${tenantsIn(tenants)}
    order by policy_version, id
    ${LIMIT}`;
  const values = [workspace_id, defaults, project_id, since, upTo, ...(env === null ? [] : [env]), ...tenants, limit];
  return { sql, values };
}
