// Finds the keys that replace others, for a page of a list.
import { compileQuery } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import { isIn, notLookedUp } from "./id-lists.ts";
import { isUnexpired, notRevoked } from "./keys.ts";

type Successor = { rotated_from: string; id: string };
type Rotated = { workspace_id: string; ids: readonly string[]; now: number };

/** Working keys that rotations made of these, oldest first. */
export function keySuccessors(on: Reader, { workspace_id, ids, now }: Rotated): Promise<Successor[]> {
  return on.all<Successor>(
    compileQuery(on, (db, dialect) =>
      db
        .selectFrom("api_keys")
        .select(["rotated_from", "id"])
        .where(isIn("api_keys.rotated_from", ids, dialect))
        .where(notLookedUp("api_keys.workspace_id"), "=", workspace_id)
        .where(notRevoked)
        .where(isUnexpired("expires_at", now))
        .orderBy("created_at")
        .orderBy("id"),
    ),
  );
}

/** The same of secret keys. */
export function secretKeySuccessors(on: Reader, { workspace_id, ids, now }: Rotated): Promise<Successor[]> {
  return on.all<Successor>(
    compileQuery(on, (db, dialect) =>
      db
        .selectFrom("secret_keys")
        .select(["rotated_from", "id"])
        .where(isIn("secret_keys.rotated_from", ids, dialect))
        .where(notLookedUp("secret_keys.workspace_id"), "=", workspace_id)
        .where("revoked_at", "is", null)
        .where(isUnexpired("expires_at", now))
        .orderBy("created_at")
        .orderBy("id"),
    ),
  );
}
