// Invitations to a workspace. Every query is scoped to the workspace; tokens are looked up by hash only.
import { sql, type SqlBool } from "kysely";
import { pageAfter, type PageKey } from "./page.ts";
import { insertRow, rowBy, updateRow } from "../engine/rows.ts";
import { countRows, selectRows, statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { WorkspaceInviteRow } from "../schema/tables.ts";

export const insertInvite = insertRow("workspace_invites", [
  "id",
  "workspace_id",
  "email",
  "email_key",
  "role",
  "invited_by",
  "token_hash",
  "mailed_token_hash",
  "created_at",
  "expires_at",
  "accepted_at",
  "revoked_at",
]);

export const inviteById = rowBy("workspace_invites", ["id", "workspace_id"]);

/** Matches either of the two tokens. */
export const inviteByHash = statement<{ workspace_id: string; token_hash: string }>()((db, p) =>
  db
    .selectFrom("workspace_invites")
    .selectAll()
    .where("workspace_id", "=", p.workspace_id)
    .where((eb) => eb.or([eb("token_hash", "=", p.token_hash), eb("mailed_token_hash", "=", p.token_hash)])),
);

/** Use as `where(isPending(now))`. */
const isPending = (now: number) => sql<SqlBool>`accepted_at is null and revoked_at is null and expires_at > ${now}`;

export const pendingInviteFor = statement<{ workspace_id: string; email_key: string; now: number }>()((db, p) =>
  db
    .selectFrom("workspace_invites")
    .select("id")
    .where("workspace_id", "=", p.workspace_id)
    .where("email_key", "=", p.email_key)
    .where(isPending(p.now)),
);

export const countPendingInvites = statement<{ workspace_id: string; now: number }>()((db, p) =>
  db
    .selectFrom("workspace_invites")
    .select(countRows)
    .where("workspace_id", "=", p.workspace_id)
    .where(isPending(p.now)),
);

/** Pending invitations that a person sent, newest first. */
export const pendingInvitesBy = statement<{ workspace_id: string; user_id: string; now: number; limit: number }>()(
  (db, p) =>
    db
      .selectFrom("workspace_invites")
      .selectAll()
      .where("workspace_id", "=", p.workspace_id)
      .where("invited_by", "=", p.user_id)
      .where(isPending(p.now))
      .orderBy("created_at", "desc")
      .orderBy("id", "desc")
      .limit(p.limit),
);

export const markInviteAccepted = updateRow("workspace_invites", ["id", "workspace_id"], ["accepted_at"]);

export const markInviteRevoked = updateRow("workspace_invites", ["id", "workspace_id"], ["revoked_at"]);

/** Newest first, in every state. Returns one row more than the limit if there are more. */
export function listInvites(
  on: Reader,
  { workspace_id, after, limit }: { workspace_id: string; after: PageKey | null; limit: number },
): Promise<WorkspaceInviteRow[]> {
  return selectRows(on, (db) => {
    const query = db
      .selectFrom("workspace_invites")
      .selectAll()
      .where("workspace_id", "=", workspace_id)
      .orderBy("created_at", "desc")
      .orderBy("id", "desc")
      .limit(limit + 1);
    return after ? query.where(pageAfter<"workspace_invites">(after)) : query;
  });
}
