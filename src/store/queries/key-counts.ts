// Reads of keys for counting them: each is an index range that stops at a bound.
import { sql } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { statement, type Builder } from "../engine/statement.ts";

type Cell = { workspace_id: string; env: Env; max: number };

function unrevoked(db: Builder, p: { readonly workspace_id: string; readonly env: Env }) {
  return db
    .selectFrom("api_keys")
    .where("api_keys.workspace_id", "=", p.workspace_id)
    .where("api_keys.env", "=", p.env)
    .where("api_keys.revoked_at", "is", null);
}

/** Ordered, so that SQLite takes the index with these columns and reads nothing else. */
export const countUnrevoked = statement<Cell>()((db, p) =>
  db
    .selectFrom(
      unrevoked(db, p)
        .select("api_keys.id")
        .orderBy("api_keys.created_at")
        .orderBy("api_keys.id")
        .limit(p.max)
        .as("counted"),
    )
    .select((eb) => eb.fn.countAll<number>().as("n")),
);

/** Counts expired keys among those that are not revoked. */
export const countExpired = statement<Cell & { now: number }>()((db, p) =>
  db
    .selectFrom(
      unrevoked(db, p)
        .select("api_keys.id")
        .where("api_keys.expires_at", "is not", null)
        .where("api_keys.expires_at", "<=", p.now)
        .limit(p.max)
        .as("counted"),
    )
    .select((eb) => eb.fn.countAll<number>().as("n")),
);

/** Counts disabled keys among those that are neither revoked nor expired. */
export const countDisabled = statement<Cell & { now: number }>()((db, p) =>
  db
    .selectFrom(
      unrevoked(db, p)
        .select("api_keys.id")
        .where("api_keys.disabled_at", "is not", null)
        .where((eb) => eb.or([eb("api_keys.expires_at", "is", null), eb("api_keys.expires_at", ">", p.now)]))
        .limit(p.max)
        .as("counted"),
    )
    .select((eb) => eb.fn.countAll<number>().as("n")),
);

/**
 * Counts keys of suspended tenants among those that are not revoked, expired or disabled. Starts at the suspended
 * tenants, which are few: the environment is compared as an expression, so that SQLite does not take the index of all
 * keys of the environment instead.
 */
export const countSuspended = statement<Cell & { now: number }>()((db, p) =>
  db
    .selectFrom(
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
        .where((eb) => eb.or([eb("api_keys.expires_at", "is", null), eb("api_keys.expires_at", ">", p.now)]))
        .limit(p.max)
        .as("counted"),
    )
    .select((eb) => eb.fn.countAll<number>().as("n")),
);
