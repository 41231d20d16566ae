// User accounts. An account belongs to no workspace; memberships connect them.
import { LIST_MAX } from "./page.ts";
import { insertRow, rowBy, updateRow } from "../engine/rows.ts";
import { selectRows, statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { UserRow } from "../schema/tables.ts";
import { isIn } from "./id-lists.ts";

export const insertUser = insertRow("users", [
  "id",
  "email",
  "email_key",
  "email_verified_at",
  "name",
  "password_phc",
  "last_workspace_id",
  "created_at",
  "updated_at",
  "last_login_at",
]);

export const userById = rowBy("users", ["id"]);

export const userByEmailKey = rowBy("users", ["email_key"]);

/** Makes other transactions that lock the same person wait until this one ends. */
export const lockUser = statement<{ id: string }>()((db, p) =>
  db
    .updateTable("users")
    .set((eb) => ({ updated_at: eb.ref("updated_at") }))
    .where("id", "=", p.id),
);

export const renameUser = updateRow("users", ["id"], ["name", "updated_at"]);

export const setPassword = updateRow("users", ["id"], ["password_phc", "updated_at"]);

/** Changes no row if the address is verified already. */
export const markVerified = statement<{ id: string; now: number }>()((db, p) =>
  db
    .updateTable("users")
    .set({ email_verified_at: p.now, updated_at: p.now })
    .where("id", "=", p.id)
    .where("email_verified_at", "is", null),
);

export const recordLogin = updateRow("users", ["id"], ["last_login_at", "last_workspace_id", "password_phc"]);

export const setLastWorkspace = updateRow("users", ["id"], ["last_workspace_id"]);

/** For a short list of ids. */
export function usersByIds(on: Reader, ids: readonly string[]): Promise<UserRow[]> {
  if (ids.length === 0) return Promise.resolve([]);
  return selectRows(on, (db, dialect) =>
    db
      .selectFrom("users")
      .selectAll()
      .where(isIn("users.id", ids, dialect)),
  );
}

/** Newest first. One row more than LIST_MAX if there are more. */
export const listUsers = statement<Record<string, never>>()((db) =>
  db
    .selectFrom("users")
    .selectAll()
    .orderBy("created_at", "desc")
    .orderBy("id", "desc")
    .limit(LIST_MAX + 1),
);
