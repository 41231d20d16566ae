// Leaked keys that still work and have no successor: what is left to do after a scanner's report.
import type { Env } from "../../kernel/credentials.ts";
import { countRows, selectRow, statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import { isIn, notLookedUp } from "./id-lists.ts";
import { hasNoSuccessor, notRevoked } from "./keys.ts";

/** `since`: quarantined earlier, a key has ended. */
type LeakScope = { workspace_id: string; env: Env; now: number; since: number; max: number };

/** How many, up to the bound, and when the first of them stops working. */
type UnreplacedLeaks = { n: number; stops_at: number | null };

/** Oldest reports first: beyond the bound, the keys that stop first are among those counted. */
export async function unreplacedKeys(
  on: Reader,
  p: LeakScope & { projects: readonly string[] | null },
): Promise<UnreplacedLeaks> {
  const counted = await selectRow(on, (db, dialect) => {
    let keys = db
      .selectFrom("api_keys")
      .select("api_keys.expires_at")
      .where("workspace_id", "=", p.workspace_id)
      .where("env", "=", p.env)
      .where("quarantined_at", ">", p.since)
      .where(notRevoked)
      .where("expires_at", ">", p.now)
      .where("disabled_at", "is", null)
      .where(hasNoSuccessor("api_keys", p.now));
    if (p.projects) keys = keys.where(isIn(notLookedUp("api_keys.project_id"), p.projects, dialect));
    const found = keys.orderBy("quarantined_at").orderBy("id").limit(p.max).as("found");
    return db
      .selectFrom(found)
      .select(countRows)
      .select((eb) => eb.fn.min("found.expires_at").as("stops_at"));
  });
  return counted ?? { n: 0, stops_at: null };
}

export const unreplacedSecretKeys = statement<Omit<LeakScope, "since">>()((db, p) =>
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
