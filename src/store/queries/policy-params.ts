// What both dialects of the policy feed's queries share: their parameters, and which keys a node gets that has
// announced certain capabilities. In a file of its own because policy.ts and both dialects need it.
import type { Env } from "../../kernel/credentials.ts";
import { CAP } from "../../kernel/policy/capabilities.ts";

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

/** Conditions, and the values of their parameters. */
export type SqlFilter = { sql: string; values: string[] };

/**
 * The tenants of a workspace that are suspended, and those with a list of networks. They are few or none. The start of
 * each query, with the workspace as its two parameters. Materialized: read once and not for every key.
 */
export function withTenants([one, other]: readonly [string, string]): string {
  return `with suspended as materialized (
      select id from tenants where workspace_id = ${one} and suspended_at is not null
    ), confined as materialized (
      select id, allowed_cidrs, ip_mode from tenants where workspace_id = ${other} and allowed_cidrs <> '[]'
    )`;
}

/** The keys as `k`; with the rules of their tenants as `t` and of their plans as `p` if there are any. */
export function keysWith(tenantRules: boolean): string {
  if (!tenantRules) return "api_keys k";
  return "api_keys k left join tenants t on t.id = k.tenant_id left join plans p on p.id = t.plan_id";
}

/** The first rate limits that are set: of the key, its tenant, its plan, its project. */
export function rateLimits(tenantRules: boolean, defaults: string): string {
  return `coalesce(k.rate_limits, ${tenantRules ? "t.rate_limits, p.rate_limits, " : ""}${defaults})`;
}

/** The key's scopes within the ceiling of its plan; `cut` is an expression for those of them that it contains. */
export function scopesWithin(tenantRules: boolean, cut: string): string {
  return tenantRules ? `case when p.scopes is null or k.scopes = '[]' then k.scopes else ${cut} end` : "k.scopes";
}

const SUSPENDED = "k.tenant_id in (select id from suspended)";
/** A key without a list of its own has that of its tenant, with its mode. */
const ENFORCED = `case when k.allowed_cidrs is null
    then k.tenant_id in (select id from confined where confined.ip_mode = 'enforce')
    else k.allowed_cidrs <> '[]' and k.ip_mode = 'enforce' end`;
/** Both fields of an entry, as a SQL text; empty if any address is allowed. */
const ADDRESSES = `case when k.allowed_cidrs is null then
      case when k.tenant_id in (select id from confined) then
        (select ${addressFields("confined")} from confined where confined.id = k.tenant_id) else '' end
    when k.allowed_cidrs = '[]' then '' else ${addressFields("k")} end`;

function addressFields(table: string): string {
  return `',"allowed_cidrs":' || ${table}.allowed_cidrs || ',"ip_mode":"' || ${table}.ip_mode || '"'`;
}

/**
 * The condition on a key that such nodes may get. Always complete: a key may have been restricted after the head was
 * read that says which features the project uses.
 */
export function servedTo({ caps, tenantRules }: PolicySelection): string {
  const conditions = ["k.revoked_at is null"];
  if (!(caps & CAP.disabled)) conditions.push("k.disabled_at is null", `not ${SUSPENDED}`);
  if (!(caps & CAP.cidr)) conditions.push(`not (${ENFORCED})`);
  if (!(caps & CAP.formats)) conditions.push("substr(k.display_prefix, 1, 3) = 'kr_'");
  if (!(caps & CAP.quotas)) conditions.push(...quotasThat(tenantRules, "not like", `'${DENYING}'`));
  return conditions.join(" and ");
}

/** In our own JSON, in which no value contains a quote. */
const DENYING = '%"overage":"deny"%';

/**
 * A condition on the quotas of the key and on those of its tenant, else its plan; without any, they are an empty list.
 */
function quotasThat(tenantRules: boolean, operator: string, value: string): string[] {
  const texts = tenantRules ? ["k.quotas", "coalesce(t.quotas, p.quotas)"] : ["k.quotas"];
  return texts.map((text) => `coalesce(${text}, '[]') ${operator} ${value}`);
}

/** Further fields of an entry, as SQL texts. */
export function fieldsFor({ caps, tenantRules }: PolicySelection): string[] {
  const fields: string[] = [];
  if (caps & CAP.disabled)
    fields.push(
      `case when ${SUSPENDED} then ',"disabled":"tenant"' when k.disabled_at is null then '' else ',"disabled":"key"' end`,
    );
  if (caps & CAP.cidr) fields.push(ADDRESSES);
  const metered = quotasThat(tenantRules, "<>", "'[]'").join(" or ");
  if (caps & CAP.quotas) fields.push(`case when ${metered} then ',"metered":true' else '' end`);
  return fields;
}

/** Why a key is not served. A revoked key has a cause, except where it was revoked before causes were stored. */
export const REASON = `case when k.revoked_at is not null then coalesce(k.revoked_cause, 'revoked')
  when ${SUSPENDED} then 'tenant_suspended' when k.disabled_at is not null then 'disabled' else 'unsupported' end`;
