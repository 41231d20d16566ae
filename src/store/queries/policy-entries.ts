// The policy feed's JSON, built by the database (bench: feed/snapshot), and which keys a node gets that has announced
// certain capabilities. Not portable: `spellings` has what differs. A contract test compares the output byte for byte.
import type { Env } from "../../kernel/credentials.ts";
import { CAP } from "../../kernel/policy/capabilities.ts";
import { jsonList, rawQuery, type Bind } from "../engine/raw-query.ts";
import { sqliteLimit } from "../engine/statement.ts";
import type { Dialect, Query } from "../engine/tx.ts";

export type PolicySelection = {
  workspace_id: string;
  project_id: string;
  env: Env | null;
  tenants: readonly string[];
  /** The project's default rate limits, which a key without its own inherits; JSON text. */
  defaults: string;
  /** Whether tenants of the workspace have a plan, or limits or quotas of their own. */
  tenantRules: boolean;
  /** The capabilities of the nodes that get the result. */
  caps: number;
};

export type ChunkParams = PolicySelection & { after: string; limit: number; expiredBefore: number };
export type ChangesParams = PolicySelection & { since: number; upTo: number; limit: number };

type Spelling = {
  limit: (place: string) => string;
  /** Texts as one. */
  joined: (texts: readonly string[]) => string;
  bytes: (text: string) => string;
  /** The entries of a chunk, with commas between them. */
  entries: string;
  /** What `entries` needs of a key. */
  order: string;
  isAmong: (column: string, json: string) => string;
  /** The scopes of a key that its plan contains. */
  scopesCut: string;
  /** JSON. */
  expiresAt: string;
};

const spellings: Record<Dialect, Spelling> = {
  sqlite: {
    limit: sqliteLimit,
    // Copies each text once; every || copies the text so far.
    joined: (texts) => `concat(${texts.join(", ")})`,
    bytes: (text) => `cast(${text} as blob)`,
    entries: "group_concat(entry, ',')",
    order: "",
    isAmong: (column, json) => `${column} in ${jsonList("sqlite", json, "text")}`,
    scopesCut: "scopes_within(k.scopes, p.scopes)",
    // Most keys never expire, so null comes first.
    expiresAt: `case when k.expires_at is null then 'null' else '"'
      || strftime('%Y-%m-%dT%H:%M:%S', k.expires_at / 1000, 'unixepoch') || printf('.%03dZ"', k.expires_at % 1000) end`,
  },
  postgres: {
    limit: (place) => `limit ${place}`,
    joined: (texts) => texts.join(" || "),
    bytes: (text) => text,
    entries: "string_agg(entry, ',' order by id)",
    order: "k.id, ",
    isAmong: (column, json) => `${column} = any(array(select jsonb_array_elements_text(${json}::jsonb)))`,
    scopesCut: `(select '[' || coalesce(string_agg(to_json(held.value)::text, ',' order by held.i), '') || ']'
      from json_array_elements_text(k.scopes::json) with ordinality held (value, i)
      where held.value in (select json_array_elements_text(p.scopes::json)))`,
    // Whole seconds times an interval are exact up to the year 9999; milliseconds are not.
    expiresAt: `coalesce('"' || to_char(timestamp 'epoch' + (k.expires_at / 1000) * interval '1 second',
      'YYYY-MM-DD"T"HH24:MI:SS') || '.' || lpad((k.expires_at % 1000)::text, 3, '0') || 'Z"', 'null')`,
  },
};

/**
 * The tenants of a workspace that are suspended, and those with a list of networks. They are few or none. The start of
 * each query. Materialized: read once and not for every key.
 */
function withTenants(workspace_id: string, bind: Bind): string {
  return `with suspended as materialized (
      select id from tenants where workspace_id = ${bind(workspace_id)} and suspended_at is not null
    ), confined as materialized (
      select id, allowed_cidrs, ip_mode from tenants where workspace_id = ${bind(workspace_id)} and allowed_cidrs <> '[]'
    )`;
}

/** The keys as `k`; with the rules of their tenants as `t` and of their plans as `p` if there are any. */
function keysWith(tenantRules: boolean): string {
  if (!tenantRules) return "api_keys k";
  return "api_keys k left join tenants t on t.id = k.tenant_id left join plans p on p.id = t.plan_id";
}

/** The first rate limits that are set: of the key, its tenant, its plan, its project. */
function rateLimits(tenantRules: boolean, defaults: string): string {
  return `coalesce(k.rate_limits, ${tenantRules ? "t.rate_limits, p.rate_limits, " : ""}${defaults})`;
}

/** The key's scopes within the ceiling of its plan; `cut` is an expression for those of them that it contains. */
function scopesWithin(tenantRules: boolean, cut: string): string {
  return tenantRules ? `case when p.scopes is null or k.scopes = '[]' then k.scopes else ${cut} end` : "k.scopes";
}

/** Whether a key's tenant is among these, which are few or none; none are noticed once and not with every key. */
function isOf(tenants: string): string {
  return `(exists (select 1 from ${tenants}) and k.tenant_id in (select id from ${tenants}))`;
}

const SUSPENDED = isOf("suspended");
/** A key without a list of its own has that of its tenant, with its mode. */
const ENFORCED = `case when k.allowed_cidrs is null
    then exists (select 1 from confined)
      and k.tenant_id in (select id from confined where confined.ip_mode = 'enforce')
    else k.allowed_cidrs <> '[]' and k.ip_mode = 'enforce' end`;
/** Both fields of an entry, as a SQL text; empty if any address is allowed. */
const ADDRESSES = `case when k.allowed_cidrs is null then
      case when ${isOf("confined")} then
        (select ${addressFields("confined")} from confined where confined.id = k.tenant_id) else '' end
    when k.allowed_cidrs = '[]' then '' else ${addressFields("k")} end`;

function addressFields(table: string): string {
  return `',"allowed_cidrs":' || ${table}.allowed_cidrs || ',"ip_mode":"' || ${table}.ip_mode || '"'`;
}

/**
 * The condition on a key that such nodes may get. Always complete: a key may have been restricted after the head was
 * read that says which features the project uses.
 */
function servedTo({ caps, tenantRules }: PolicySelection): string {
  const conditions = ["k.revoked_at is null"];
  if (!(caps & CAP.disabled)) conditions.push("k.disabled_at is null", `not ${SUSPENDED}`);
  if (!(caps & CAP.cidr)) conditions.push(`not (${ENFORCED})`);
  if (!(caps & CAP.formats)) conditions.push("substr(k.display_prefix, 1, 3) = 'kr_'");
  if (!(caps & CAP.quotas)) conditions.push(...quotasOf(tenantRules).map(isNotDenying));
  return conditions.join(" and ");
}

/** In our own JSON, in which no value contains a quote. */
const DENYING = '%"overage":"deny"%';

function isNotDenying(quotas: string): string {
  return `(${quotas} is null or ${quotas} not like '${DENYING}')`;
}

/** The quotas of the key, and those of its tenant, else its plan. Null is none. */
function quotasOf(tenantRules: boolean): string[] {
  return tenantRules ? ["k.quotas", "coalesce(t.quotas, p.quotas)"] : ["k.quotas"];
}

/** Further fields of an entry, as SQL texts. */
function fieldsFor({ caps, tenantRules }: PolicySelection): string[] {
  const fields: string[] = [];
  if (caps & CAP.disabled)
    fields.push(
      `case when ${SUSPENDED} then ',"disabled":"tenant"' when k.disabled_at is null then '' else ',"disabled":"key"' end`,
    );
  if (caps & CAP.cidr) fields.push(ADDRESSES);
  const metered = quotasOf(tenantRules)
    .map((quotas) => `${quotas} <> '[]'`)
    .join(" or ");
  if (caps & CAP.quotas) fields.push(`case when ${metered} then ',"metered":true' else '' end`);
  return fields;
}

/** Why a key is not served. A revoked key has a cause, except where it was revoked before causes were stored. */
const REASON = `case when k.revoked_at is not null then coalesce(k.revoked_cause, 'revoked')
  when ${SUSPENDED} then 'tenant_suspended' when k.disabled_at is not null then 'disabled' else 'unsupported' end`;

const NAMES = ["tenant_id", "env", "lookup_hash", "display_prefix"];
const IDENTITY = ["k.id", ...NAMES.flatMap((name) => [`'","${name}":"'`, `k.${name}`])];

/** An entry after its identity, for nodes with these capabilities. */
function rulesFor(dialect: Dialect, selection: PolicySelection, bind: Bind): string[] {
  const { scopesCut, expiresAt } = spellings[dialect];
  const { tenantRules, defaults } = selection;
  return [
    `'","scopes":'`,
    scopesWithin(tenantRules, scopesCut),
    `',"expires_at":'`,
    expiresAt,
    `',"rate_limits":'`,
    rateLimits(tenantRules, bind(defaults)),
    ...fieldsFor(selection),
    "'}'",
  ];
}

/** Conditions on environment and tenants. The text does not depend on how many tenants there are. */
function filterBy(dialect: Dialect, { env, tenants }: PolicySelection, bind: Bind): string {
  const ofEnv = env === null ? "" : `and k.env = ${bind(env)}`;
  if (tenants.length === 0) return ofEnv;
  return `${ofEnv} and ${spellings[dialect].isAmong("k.tenant_id", bind(JSON.stringify(tenants)))}`;
}

/** Up to `limit` entries after the id `after`, joined by commas. The last id is read from them: `max(id)` is slower. */
export function chunkQuery(dialect: Dialect, params: ChunkParams): Query {
  const { workspace_id, project_id, after, limit, expiredBefore, tenantRules } = params;
  const spelled = spellings[dialect];
  const text = (bind: Bind): string => `${withTenants(workspace_id, bind)}
    select ${spelled.bytes(spelled.entries)} as entries, count(*) as n, min(expires_at) as first_expiry
    from (
      select ${spelled.order}k.expires_at,
        ${spelled.joined([`'{"key_id":"'`, ...IDENTITY, ...rulesFor(dialect, params, bind)])} as entry
      from ${keysWith(tenantRules)}
      where k.project_id = ${bind(project_id)} and k.id > ${bind(after)} and ${servedTo(params)}
        and (k.expires_at is null or k.expires_at >= ${bind(expiredBefore)})
        and not ${isOf("cascades")}
        ${filterBy(dialect, params, bind)}
      order by k.id
      ${spelled.limit(bind(limit))}
    ) as page`;
  return rawQuery(dialect, text);
}

/** Changes in (since, upTo], oldest first. */
export function changesQuery(dialect: Dialect, params: ChangesParams): Query {
  const { workspace_id, project_id, since, upTo, limit, tenantRules } = params;
  const { joined, bytes, limit: limitTo } = spellings[dialect];
  const entry = (bind: Bind): string => `case
      when ${servedTo(params)}
      then ${joined([`'{"change":"upsert","key_id":"'`, ...IDENTITY, ...rulesFor(dialect, params, bind)])}
      else ${joined([`'{"change":"remove","key_id":"'`, ...IDENTITY, `'","reason":"'`, REASON, `'"}'`])} end`;
  const text = (bind: Bind): string => `${withTenants(workspace_id, bind)}
    select k.policy_version, ${bytes(entry(bind))} as entry
    from ${keysWith(tenantRules)}
    where k.project_id = ${bind(project_id)} and k.policy_version > ${bind(since)}
      and k.policy_version <= ${bind(upTo)} ${filterBy(dialect, params, bind)}
    order by k.policy_version, k.id
    ${limitTo(bind(limit))}`;
  return rawQuery(dialect, text);
}
