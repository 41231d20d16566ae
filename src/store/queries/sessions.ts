// Sessions of people. Authenticated by hash only. Every lookup joins the membership, so a removed member's session
// still resolves to the person but to no workspace.
import { insertRow, updateRow } from "../engine/rows.ts";
import { sql, type SqlBool } from "kysely";
import { deleteWhere } from "../engine/delete-piece.ts";
import { statement, type Builder, type Params } from "../engine/statement.ts";
import type { SessionRow } from "../schema/tables.ts";

export const insertSession = insertRow("sessions", [
  "id",
  "user_id",
  "lookup_hash",
  "display_prefix",
  "active_workspace_id",
  "created_at",
  "last_seen_at",
  "expires_at",
  "absolute_expires_at",
  "revoked_at",
]);

const selectSession = (db: Builder, p: Params<{ lookup_hash: string }>) =>
  db
    .selectFrom("sessions as s")
    .leftJoin("memberships as m", (join) =>
      join.onRef("m.workspace_id", "=", "s.active_workspace_id").onRef("m.user_id", "=", "s.user_id"),
    )
    .leftJoin("workspaces as w", "w.id", "m.workspace_id")
    .select([
      "s.id",
      "s.user_id",
      "s.display_prefix",
      "s.last_seen_at",
      "s.expires_at",
      "s.absolute_expires_at",
      "s.revoked_at",
      "m.workspace_id",
      "m.role",
      "w.created_by as account_id",
    ])
    .where("s.lookup_hash", "=", p.lookup_hash);

export const sessionByHash = statement<{ lookup_hash: string }>()(selectSession);

/**
 * For a transaction that acts for the session. Sessions end under another lock than the one on the workspace's audit
 * head, so PostgreSQL locks the row: the session ends either before this read or after the commit.
 */
export const sessionInUse = statement<{ lookup_hash: string }>()((db, p, dialect) =>
  dialect === "postgres" ? selectSession(db, p).forShare("s") : selectSession(db, p),
);

type Live = { user_id: string; now: number };

/** Use as `where(isLive(now))`. */
const isLive = (now: number) =>
  sql<SqlBool>`revoked_at is null and expires_at > ${now} and absolute_expires_at > ${now}`;

/** Newest first. */
export const liveSessions = statement<Live>()((db, p) =>
  db
    .selectFrom("sessions")
    .selectAll()
    .where("user_id", "=", p.user_id)
    .where(isLive(p.now))
    .orderBy("created_at", "desc")
    .orderBy("id", "desc"),
);

export const liveSessionById = statement<Live & { id: string }>()((db, p) =>
  db.selectFrom("sessions").selectAll().where("id", "=", p.id).where("user_id", "=", p.user_id).where(isLive(p.now)),
);

export const touchSession = statement<Pick<SessionRow, "id" | "last_seen_at" | "expires_at">>()((db, p) =>
  db
    .updateTable("sessions")
    .set({ last_seen_at: p.last_seen_at, expires_at: p.expires_at })
    .where("id", "=", p.id)
    .where("revoked_at", "is", null),
);

export const revokeSessionRow = updateRow("sessions", ["id"], ["revoked_at"]);

/** Revokes a person's sessions except one ("" for none). Returns their number. */
export const revokeSessionsOf = statement<Live & { except: string }>()((db, p) =>
  db
    .updateTable("sessions")
    .set({ revoked_at: p.now })
    .where("user_id", "=", p.user_id)
    .where("id", "!=", p.except)
    .where(isLive(p.now)),
);

export const setActiveWorkspace = updateRow("sessions", ["id"], ["active_workspace_id"]);

export const leaveWorkspace = statement<{ user_id: string; workspace_id: string }>()((db, p) =>
  db
    .updateTable("sessions")
    .set({ active_workspace_id: null })
    .where("user_id", "=", p.user_id)
    .where("active_workspace_id", "=", p.workspace_id),
);

/** A session expires no later than at its absolute end. */
export const reapSessions = deleteWhere("sessions", ["id"], "expires_at", "<");

/** Deletes a person's ended sessions except the newest. */
export const trimEndedSessions = statement<{ user_id: string; now: number; keep: number; limit: number }>()((db, p) =>
  db.deleteFrom("sessions").where("id", "in", (eb) =>
    eb
      .selectFrom("sessions as ended")
      .select("ended.id")
      .where("ended.user_id", "=", p.user_id)
      .where((at) => at.or([at("ended.revoked_at", "is not", null), at("ended.expires_at", "<=", p.now)]))
      .orderBy("ended.created_at", "desc")
      .orderBy("ended.id", "desc")
      .limit(p.limit)
      .offset(p.keep),
  ),
);
