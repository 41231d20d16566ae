// Registered origins of all workspaces, normalised. CORS preflights, which carry no token, are checked against them.
import { deleteBy, insertRow } from "../engine/rows.ts";
import { statement } from "../engine/statement.ts";

export const insertEmbedOrigin = insertRow("embed_origins", ["origin", "workspace_id"]);

export const dropEmbedOrigins = deleteBy("embed_origins", ["workspace_id"]);

/** Finds any workspace that registered the origin. */
export const findEmbedOrigin = statement<{ origin: string }>()((db, p) =>
  db.selectFrom("embed_origins").select("workspace_id").where("origin", "=", p.origin).limit(1),
);
