// Reads of keys for counting them: each is an index range that stops at a bound.
import { sql, type SelectQueryBuilder } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { countRows, statement, type Builder, type Params } from "../engine/statement.ts";
import type { Tables } from "../schema/tables.ts";
import { isUnexpired } from "./keys.ts";

type KeyCountParams = { workspace_id: string; env: Env; max: number };

function unrevoked(db: Builder, p: { readonly workspace_id: string; readonly env: Env }) {
  return db
    .selectFrom("api_keys")
    .select("api_keys.id")
    .where("api_keys.workspace_id", "=", p.workspace_id)
    .where("api_keys.env", "=", p.env)
    .where("api_keys.revoked_at", "is", null);
}

/** Counts the selected ids, up to the bound. */
function bounded<T extends keyof Tables>(
  db: Builder,
  p: Params<KeyCountParams>,
  keys: SelectQueryBuilder<Tables, T, { id: string }>,
) {
  return db.selectFrom(keys.limit(p.max).as("counted")).select(countRows);
}

/** Ordered, as the two below, so that the index with these columns is taken, and nothing else is read. */
export const countUnrevoked = statement<KeyCountParams>()((db, p) =>
  bounded(db, p, unrevoked(db, p).orderBy("api_keys.created_at").orderBy("api_keys.id")),
);

/** Counts expired keys among those that are not revoked. */
export const countExpired = statement<KeyCountParams & { now: number }>()((db, p) =>
  bounded(
    db,
    p,
    unrevoked(db, p)
      .where("api_keys.expires_at", "is not", null)
      .where("api_keys.expires_at", "<=", p.now)
      .orderBy("api_keys.expires_at")
      .orderBy("api_keys.id"),
  ),
);

/** Counts disabled keys among those that are neither revoked nor expired. */
export const countDisabled = statement<KeyCountParams & { now: number }>()((db, p) =>
  bounded(
    db,
    p,
    unrevoked(db, p)
      .where("api_keys.disabled_at", "is not", null)
      .where(isUnexpired("api_keys.expires_at", p.now))
      .orderBy("api_keys.disabled_at")
      .orderBy("api_keys.id"),
  ),
);

/**
 * Counts keys of suspended tenants among those that are not revoked, expired or disabled. Starts at the suspended
 * tenants, which are few: the environment is compared as an expression, so that SQLite does not take the index of all
 * keys of the environment instead.
 */
export const countSuspended = statement<KeyCountParams & { now: number }>()((db, p) =>
  bounded(
    db,
    p,
    db
      .selectFrom("tenants")
      .crossJoin("api_keys")
      .select("api_keys.id")
      .where("tenants.workspace_id", "=", p.workspace_id)
      .where("tenants.suspended_at", "is not", null)
      .whereRef("api_keys.tenant_id", "=", "tenants.id")
      .where(sql<string>`api_keys.env || ''`, "=", p.env)
      .where("api_keys.revoked_at", "is", null)
      .where("api_keys.disabled_at", "is", null)
      .where(isUnexpired("api_keys.expires_at", p.now)),
  ),
);
