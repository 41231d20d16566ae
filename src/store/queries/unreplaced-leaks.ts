// Leaked keys that still work and have no successor: what is left to do after a scanner's report.
import { sql, type SqlBool } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { countRows, selectRows, statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import { isIn, notLookedUp } from "./id-lists.ts";
import { hasNoSuccessor, notRevoked } from "./keys.ts";

type LeakScope = { workspace_id: string; env: Env; now: number; max: number };

/** In the order of their reports. */
type LeakPosition = { quarantined_at: number; id: string };

/** Oldest reports first: beyond a bound, the keys that stop first are among those counted. */
export function unreplacedKeys(
  on: Reader,
  p: LeakScope & { projects: readonly string[] | null; after: LeakPosition },
): Promise<(LeakPosition & { expires_at: number })[]> {
  const { quarantined_at, id } = p.after;
  return selectRows(on, (db, dialect) => {
    const keys = db
      .selectFrom("api_keys")
      .select(["api_keys.id", "api_keys.quarantined_at", "api_keys.expires_at"])
      .$narrowType<{ quarantined_at: number; expires_at: number }>()
      .where("workspace_id", "=", p.workspace_id)
      .where("env", "=", p.env)
      .where("quarantined_at", "is not", null)
      .where(sql<SqlBool>`(api_keys.quarantined_at, api_keys.id) > (${quarantined_at}, ${id})`)
      .where(notRevoked)
      .where("expires_at", ">", p.now)
      .where("disabled_at", "is", null)
      .where(hasNoSuccessor("api_keys", p.now))
      .orderBy("quarantined_at")
      .orderBy("id")
      .limit(p.max);
    return p.projects ? keys.where(isIn(notLookedUp("api_keys.project_id"), p.projects, dialect)) : keys;
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
