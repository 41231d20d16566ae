// Memberships: which person has which role in which workspace.
import { sql } from "kysely";
import { deleteBy, insertRow, rowBy, updateRow } from "../engine/rows.ts";
import { countRows, statement, type Builder, type Params } from "../engine/statement.ts";

export const insertMembership = insertRow("memberships", [
  "workspace_id",
  "user_id",
  "role",
  "created_at",
  "updated_at",
]);

export const membershipOf = rowBy("memberships", ["workspace_id", "user_id"]);

/** Memberships joined with their users. */
function members(db: Builder, p: Params<{ workspace_id: string }>) {
  return db
    .selectFrom("memberships as m")
    .innerJoin("users as u", "u.id", "m.user_id")
    .select(["m.user_id", "u.email", "u.email_verified_at", "u.name", "m.role", "m.created_at", "m.updated_at"])
    .where("m.workspace_id", "=", p.workspace_id);
}

export const memberOf = statement<{ workspace_id: string; user_id: string }>()((db, p) =>
  members(db, p).where("m.user_id", "=", p.user_id),
);

/** Oldest first. Needs no paging: the member limit bounds it. */
export const membersOf = statement<{ workspace_id: string }>()((db, p) =>
  members(db, p).orderBy("m.created_at").orderBy("m.user_id"),
);

export const memberByEmailKey = statement<{ workspace_id: string; email_key: string }>()((db, p) =>
  db
    .selectFrom("memberships as m")
    .innerJoin("users as u", "u.id", "m.user_id")
    .select("m.user_id")
    .where("m.workspace_id", "=", p.workspace_id)
    .where("u.email_key", "=", p.email_key),
);

export const countMembers = statement<{ workspace_id: string }>()((db, p) =>
  db.selectFrom("memberships").select(countRows).where("workspace_id", "=", p.workspace_id),
);

export const countOwners = statement<{ workspace_id: string }>()((db, p) =>
  db.selectFrom("memberships").select(countRows).where("workspace_id", "=", p.workspace_id).where("role", "=", "owner"),
);

/** Some owner of any workspace. */
export const anyOwner = statement<Record<string, never>>()((db) =>
  db
    .selectFrom("memberships")
    .select("user_id")
    .where(sql<boolean>`role = 'owner'`) // a literal, so that the partial index applies
    .limit(1),
);

/**
 * The workspaces, except for one, that a person created, also those they have left, and those in which they are an
 * owner.
 */
export const countOwnedBy = statement<{ user_id: string; except: string }>()((db, p) => {
  const created = db.selectFrom("workspaces").select("id").where("created_by", "=", p.user_id);
  const joined = db
    .selectFrom("memberships")
    .select("workspace_id as id")
    .where("user_id", "=", p.user_id)
    .where("role", "=", "owner");
  return db.selectFrom(created.union(joined).as("owned")).select(countRows).where("id", "!=", p.except);
});

export const setRole = updateRow("memberships", ["workspace_id", "user_id"], ["role", "updated_at"]);

export const deleteMembership = deleteBy("memberships", ["workspace_id", "user_id"]);

/** A person's workspaces, oldest membership first. */
export const membershipsOfUser = statement<{ user_id: string }>()((db, p) =>
  db
    .selectFrom("memberships as m")
    .innerJoin("workspaces as w", "w.id", "m.workspace_id")
    .select(["m.workspace_id", "m.role", "w.name", "w.slug"])
    .where("m.user_id", "=", p.user_id)
    .orderBy("m.created_at")
    .orderBy("m.workspace_id"),
);
