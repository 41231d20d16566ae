// Finds the keys that replace others, for a page of a list.
import { compileQuery } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import { isIn, notLookedUp } from "./id-lists.ts";
import { type Rotatable, workingSuccessor } from "./keys.ts";

type Page = { workspace_id: string; ids: readonly string[]; now: number };
type Replaced = { id: string; successor_id: string | null };

/** A successor that works of each of these keys. */
export function successorsIn(on: Reader, table: Rotatable, { workspace_id, ids, now }: Page): Promise<Replaced[]> {
  const keys = table as "api_keys";
  return on.all<Replaced>(
    compileQuery(on, (db, dialect) =>
      db
        .selectFrom(keys)
        .select([`${keys}.id`, workingSuccessor(table, now)])
        .where(isIn(`${keys}.id`, ids, dialect))
        .where(notLookedUp(`${keys}.workspace_id`), "=", workspace_id),
    ),
  );
}
