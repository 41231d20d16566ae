// API keys. Rows are never deleted; revocation is a state. `policy_version` orders changes in the policy feed.
import { expressionBuilder, sql, type Expression, type ExpressionBuilder, type SqlBool } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { insertRow, updateRow } from "../engine/rows.ts";
import { selectRows, statement, type Builder } from "../engine/statement.ts";
import type { Dialect, Reader } from "../engine/tx.ts";
import type { ApiKeyRow, Tables } from "../schema/tables.ts";
import { isIn, notLookedUp } from "./id-lists.ts";

/** Without columns that are null in every new key: fewer values to bind. bench: vendor/mint */
const NEW_COLUMNS = [
  "id",
  "workspace_id",
  "project_id",
  "tenant_id",
  "env",
  "lookup_hash",
  "display_prefix",
  "name",
  "scopes",
  "meta",
  "rate_limits",
  "expires_at",
  "requested_expires_at",
  "rotated_from",
  "created_at",
  "policy_version",
  "allowed_cidrs",
  "ip_mode",
] as const;

const METERED_COLUMNS = [...NEW_COLUMNS, "quotas", "lineage_id"] as const;

/** All but those of a revocation, which a running deletion may imply. */
const STORED_COLUMNS = [
  ...METERED_COLUMNS,
  "quarantined_at",
  "quarantine_reason",
  "last_used_at",
  "disabled_at",
  "disabled_reason",
  "enabled_at",
] as const;

export const insertKey = insertRow("api_keys", NEW_COLUMNS);

/** A key with quotas, or of a lineage that may have some. */
export const insertMeteredKey = insertRow("api_keys", METERED_COLUMNS);

/** Built once, because lists of keys compile their query at each call. bench: insight/search */
const REVOCATION_COLUMNS = revocationColumns(expressionBuilder<Tables, "api_keys">());

/** Whole rows. A key whose project or tenant is being deleted is revoked, although its row may not say so yet. */
export function selectKeys(db: Builder) {
  return db.selectFrom("api_keys").select([...STORED_COLUMNS, ...REVOCATION_COLUMNS]);
}

function revocationColumns(eb: ExpressionBuilder<Tables, "api_keys">) {
  const deletion = (column: "revoked_at" | "reason" | "cause") =>
    eb
      .selectFrom("cascades")
      .select(`cascades.${column}`)
      .where((own) => own(own.ref("cascades.id"), "in", [own.ref("project_id"), own.ref("tenant_id")]))
      .orderBy("cascades.revoked_at")
      .limit(eb.lit(1));
  const begun = eb.selectFrom("cascades").select("cascades.id");
  // Most keys have none: finding that first is cheaper than looking for the earliest, once a column. bench:
  // vendor/get-by-id
  const isDeleted = eb.and([
    eb("api_keys.revoked_at", "is", null),
    eb.or([eb("project_id", "in", begun), eb("tenant_id", "in", begun)]),
  ]);
  const orDeletion = <C extends "revoked_at" | "revoked_reason" | "revoked_cause">(
    column: C,
    other: Expression<unknown>,
  ) => sql<ApiKeyRow[C]>`case when ${isDeleted} then ${other} else ${eb.ref(`api_keys.${column}`)} end`.as(column);
  return [
    orDeletion("revoked_at", deletion("revoked_at")),
    orDeletion("revoked_reason", deletion("reason")),
    orDeletion("revoked_cause", deletion("cause")),
  ] as const;
}

/** Use as `where(notRevoked)`. */
export function notRevoked(eb: ExpressionBuilder<Tables, "api_keys">): Expression<SqlBool> {
  return eb.and([eb("revoked_at", "is", null), notDeleted(eb)]);
}

/** The deletion of its tenant or project has not begun. */
export function notDeleted(eb: ExpressionBuilder<Tables, "api_keys">): Expression<SqlBool> {
  const begun = eb.selectFrom("cascades").select("cascades.id");
  return eb.and([eb("tenant_id", "not in", begun), eb("project_id", "not in", begun)]);
}

export function holdsScope(scope: string, dialect: Dialect): Expression<SqlBool> {
  return dialect === "sqlite"
    ? sql<SqlBool>`exists (select 1 from json_each(api_keys.scopes) where value = ${scope})`
    : sql<SqlBool>`api_keys.scopes::jsonb @> jsonb_build_array(${scope}::text)`;
}

/**
 * Use as `where(isUnusedSince(before))`. The last use is not enough: a node whose clock is late reports uses of
 * before the key was created.
 */
export function isUnusedSince(before: number) {
  return (eb: ExpressionBuilder<Tables, "api_keys">): Expression<SqlBool> =>
    eb.and([
      eb("api_keys.created_at", "<", before),
      eb.or([eb("api_keys.last_used_at", "is", null), eb("api_keys.last_used_at", "<", before)]),
    ]);
}

/** Use as `where(isUnexpired("expires_at", now))`. */
export function isUnexpired(column: "expires_at" | `${string}.expires_at`, now: number): Expression<SqlBool> {
  return sql<SqlBool>`(${sql.ref(column)} is null or ${sql.ref(column)} > ${now})`;
}

/** Rotation makes a new row beside the old one in both. */
export type Rotatable = "api_keys" | "secret_keys";

/** Successors that work, of the key in the enclosing query. */
function workingSuccessors(table: Rotatable, now: number) {
  return expressionBuilder<Tables, "api_keys">()
    .selectFrom(`${table as "api_keys"} as successor`)
    .select("successor.id")
    .whereRef("successor.rotated_from", "=", `${table as "api_keys"}.id`)
    .where("successor.revoked_at", "is", null)
    .where(isUnexpired("successor.expires_at", now));
}

/** Use as `select(workingSuccessor("api_keys", now))`. One of them: a key may have thousands. */
export const workingSuccessor = (table: Rotatable, now: number) =>
  workingSuccessors(table, now).limit(expressionBuilder().lit(1)).as("successor_id");

type Page = { workspace_id: string; ids: readonly string[]; now: number };

/** A successor that works of each of these keys. */
export function successorsIn(on: Reader, table: Rotatable, { workspace_id, ids, now }: Page) {
  const keys = table as "api_keys";
  return selectRows(on, (db, dialect) =>
    db
      .selectFrom(keys)
      .select([`${keys}.id`, workingSuccessor(table, now)])
      .where(isIn(`${keys}.id`, ids, dialect))
      .where(notLookedUp(`${keys}.workspace_id`), "=", workspace_id),
  );
}

/**
 * Use as `where(hasNoSuccessor("api_keys", now))`: no successor works. As a value, because PostgreSQL may plan an
 * `exists` as a scan of all keys.
 */
export function hasNoSuccessor(table: Rotatable, now: number): Expression<SqlBool> {
  const eb = expressionBuilder<Tables>();
  return eb(workingSuccessors(table, now).limit(eb.lit(1)), "is", null);
}

/**
 * Use as `where(isActive(now))` on keys that are not revoked: nodes admit them. The tenant is read by its id:
 * an `exists` may be planned as a scan of all tenants.
 */
export function isActive(now: number) {
  return (eb: ExpressionBuilder<Tables, "api_keys">): Expression<SqlBool> => {
    const suspended_at = eb
      .selectFrom("tenants")
      .select("tenants.suspended_at")
      .whereRef("tenants.id", "=", "api_keys.tenant_id");
    return eb.and([
      eb("api_keys.disabled_at", "is", null),
      isUnexpired("api_keys.expires_at", now),
      eb(suspended_at, "is", null),
    ]);
  };
}

export const keyByHash = statement<{ workspace_id: string; lookup_hash: string }>()((db, p) =>
  selectKeys(db).where("lookup_hash", "=", p.lookup_hash).where("workspace_id", "=", p.workspace_id),
);

export const keyById = statement<{ workspace_id: string; id: string }>()((db, p) =>
  selectKeys(db).where("id", "=", p.id).where("workspace_id", "=", p.workspace_id),
);

type ActiveKeys = {
  workspace_id: string;
  tenant_id: string;
  project_id: string;
  env: Env;
  now: number;
  max: number;
};

/** Up to `max` active keys of one tenant in one project and environment. */
export const activeKeysOf = statement<ActiveKeys>()((db, p) => {
  const keys = db
    .selectFrom("api_keys")
    .select("id")
    .where("workspace_id", "=", p.workspace_id)
    .where("project_id", "=", p.project_id)
    .where("tenant_id", "=", p.tenant_id)
    .where("env", "=", p.env)
    .where(notRevoked);
  // Two ranges of an index, so that expired keys cost nothing however many there are.
  return keys
    .where("expires_at", "is", null)
    .unionAll(keys.where("expires_at", ">", p.now))
    .limit(p.max);
});

export const activeSuccessor = statement<{ workspace_id: string; id: string; now: number }>()((db, p) =>
  db
    .selectFrom("api_keys")
    .select("id")
    .where("rotated_from", "=", p.id)
    .where(notLookedUp("api_keys.workspace_id"), "=", p.workspace_id)
    .where(notRevoked)
    .where(isUnexpired("expires_at", p.now))
    .limit(1),
);

/** The newest, ended ones too: a key may be rotated again while it overlaps with its successor. */
export const newestSuccessor = statement<{ workspace_id: string; id: string }>()((db, p) =>
  db
    .selectFrom("api_keys")
    .select("id")
    .where("rotated_from", "=", p.id)
    .where(notLookedUp("api_keys.workspace_id"), "=", p.workspace_id)
    .orderBy("created_at", "desc")
    .orderBy("id", "desc")
    .limit(1),
);

export const updateKey = updateRow(
  "api_keys",
  ["id", "workspace_id"],
  [
    "name",
    "scopes",
    "meta",
    "rate_limits",
    "expires_at",
    "requested_expires_at",
    "policy_version",
    "allowed_cidrs",
    "ip_mode",
    "quotas",
  ],
);

export const shortenKey = updateRow("api_keys", ["id", "workspace_id"], ["expires_at", "policy_version"]);

/** Ends a key that still works; returns nothing for another. */
export const endKey = statement<{ workspace_id: string; id: string; now: number; policy_version: number }>()((db, p) =>
  db
    .updateTable("api_keys")
    .set({ expires_at: p.now, policy_version: p.policy_version })
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id)
    .where(notRevoked)
    .where(isUnexpired("expires_at", p.now))
    .returning("id"),
);

export const revokeKeyRow = updateRow(
  "api_keys",
  ["id", "workspace_id"],
  ["revoked_at", "revoked_reason", "revoked_cause", "policy_version"],
);

export const switchKey = updateRow(
  "api_keys",
  ["id", "workspace_id"],
  ["disabled_at", "disabled_reason", "enabled_at", "policy_version"],
);
