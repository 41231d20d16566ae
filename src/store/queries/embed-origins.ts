// Registered origins of all workspaces, normalised. CORS preflights, which carry no token, are checked against them.
import { statement } from "../engine/statement.ts";
import type { EmbedOriginRow } from "../schema/tables.ts";

export const insertEmbedOrigin = statement<EmbedOriginRow>()((db, p) =>
  db.insertInto("embed_origins").values({ origin: p.origin, workspace_id: p.workspace_id }),
);

export const dropEmbedOrigins = statement<{ workspace_id: string }>()((db, p) =>
  db.deleteFrom("embed_origins").where("workspace_id", "=", p.workspace_id),
);

/** Finds any workspace that registered the origin. */
export const findEmbedOrigin = statement<{ origin: string }>()((db, p) =>
  db.selectFrom("embed_origins").select("workspace_id").where("origin", "=", p.origin).limit(1),
);
