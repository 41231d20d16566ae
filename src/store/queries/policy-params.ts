// What both dialects of the policy feed's queries share: their parameters, and which keys a node gets that has announced
// certain capabilities. In a file of its own because policy.ts and both dialects need it.
import type { Env } from "../../kernel/credentials.ts";
import { CAP } from "../../kernel/policy/capabilities.ts";

export type PolicySelection = {
  workspace_id: string;
  project_id: string;
  env: Env | null;
  tenants: readonly string[];
  /** The project's default rate limits, which a key without its own inherits; JSON text. */
  defaults: string;
  /** The capabilities of the nodes that get the result. */
  caps: number;
};

export type ChunkParams = PolicySelection & { after: string; limit: number; expiredBefore: number };
export type ChangesParams = PolicySelection & { since: number; upTo: number; limit: number };

/** The suspended tenants of a workspace, which are few or none: the start of each query, with the workspace as its parameter. */
export function withSuspended(param: string): string {
  return `with suspended as (select id from tenants where workspace_id = ${param} and suspended_at is not null)`;
}

const SUSPENDED = "tenant_id in (select id from suspended)";

/**
 * The condition on a key that such nodes may get. Always complete: a key may have been restricted after the head was read
 * that says which features the project uses.
 */
export function servedTo(caps: number): string {
  const conditions = ["revoked_at is null"];
  if (!(caps & CAP.disabled)) conditions.push("disabled_at is null", `not ${SUSPENDED}`);
  if (!(caps & CAP.formats)) conditions.push("substr(display_prefix, 1, 3) = 'kr_'");
  return conditions.join(" and ");
}

/** Further fields of an entry, as SQL texts. */
export function fieldsFor(caps: number): string[] {
  if (!(caps & CAP.disabled)) return [];
  return [
    `case when ${SUSPENDED} then ',"disabled":"tenant"' when disabled_at is null then '' else ',"disabled":"key"' end`,
  ];
}

/** Why a key is not served. A revoked key has a cause, except where it was revoked before causes were stored. */
export const REASON = `case when revoked_at is not null then coalesce(revoked_cause, 'revoked')
  when ${SUSPENDED} then 'tenant_suspended' when disabled_at is not null then 'disabled' else 'unsupported' end`;
