// Leaked keys that still work and have no successor: what is left to do after a scanner's report.
import { sql, type ExpressionBuilder, type SqlBool } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { countRows, selectRows, statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { Tables } from "../schema/tables.ts";
import { isIn, notLookedUp } from "./id-lists.ts";
import { hasNoSuccessor, notDeleted } from "./keys.ts";

type LeakScope = { workspace_id: string; env: Env; now: number; max: number };

/** In the order of their reports. */
type LeakPosition = { quarantined_at: number; id: string };

type Keys = ExpressionBuilder<Tables, "api_keys">;
type LeakedKey = LeakPosition & { expires_at: number | null; isUnreplaced: 0 | 1 };

/**
 * The next leaked keys up to the limit, oldest reports first, and of each whether it still works and is unreplaced. All
 * columns are in the index of their order, so that no key is read. bench: insight/overview
 */
export function walkLeakedKeys(
  on: Reader,
  p: LeakScope & { projects: readonly string[] | null; after: LeakPosition },
): Promise<LeakedKey[]> {
  const { quarantined_at, id } = p.after;
  return selectRows(on, (db, dialect) => {
    const isUnreplaced = (eb: Keys) =>
      eb.and([
        notDeleted(eb),
        eb("api_keys.expires_at", ">", p.now),
        eb("api_keys.disabled_at", "is", null),
        hasNoSuccessor("api_keys", p.now),
        ...(p.projects ? [isIn(notLookedUp("api_keys.project_id"), p.projects, dialect)] : []),
      ]);
    return db
      .selectFrom("api_keys")
      .select(["id", "quarantined_at", "expires_at"])
      .select((eb) => sql<0 | 1>`case when ${isUnreplaced(eb)} then 1 else 0 end`.as("isUnreplaced"))
      .$narrowType<{ quarantined_at: number }>()
      .where("workspace_id", "=", p.workspace_id)
      .where("env", "=", p.env)
      .where("quarantined_at", "is not", null)
      .where("revoked_at", "is", null)
      .where(sql<SqlBool>`(api_keys.quarantined_at, api_keys.id) > (${quarantined_at}, ${id})`)
      .orderBy("quarantined_at")
      .orderBy("id")
      .limit(p.max);
  });
}

export const unreplacedSecretKeys = statement<LeakScope>()((db, p) =>
  db
    .selectFrom(
      db
        .selectFrom("secret_keys")
        .select("secret_keys.expires_at")
        .where("workspace_id", "=", p.workspace_id)
        .where("env", "=", p.env)
        .where("revoked_at", "is", null)
        .where("expires_at", ">", p.now)
        .where("quarantined_at", "is not", null)
        .where(hasNoSuccessor("secret_keys", p.now))
        .orderBy("expires_at")
        .limit(p.max)
        .as("found"),
    )
    .select(countRows)
    .select((eb) => eb.fn.min("found.expires_at").as("stops_at")),
);
