// Reads of the policy feed: a project's head, snapshot entries in chunks, changes since a version, and the version log.
// The database builds each entry's JSON; JavaScript neither parses nor builds it. bench: feed/snapshot
import { sql } from "kysely";
import { deletePiece } from "../engine/delete-piece.ts";
import { rowBy } from "../engine/rows.ts";
import { statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { ProjectRow } from "../schema/tables.ts";
import { changesQuery, chunkQuery, type ChangesParams, type ChunkParams } from "./policy-entries.ts";

export type Chunk = { entries: Buffer; n: number; last_id: string | null; first_expiry: number | null };
/**
 * The bytes of an entry, or its text on PostgreSQL. SQLite's are not decoded: of texts outside ASCII that takes ten
 * times as long as a copy, and a delta only joins them.
 */
export type Change = { policy_version: number; entry: Buffer | string };

type ChunkRow = Pick<Chunk, "n" | "first_expiry"> & { entries: Buffer | string | null };

const EMPTY = Buffer.alloc(0);
/** The start of every entry. Cannot occur inside a string value, where quotes are escaped. */
const ENTRY_START = '{"key_id":"';

export async function snapshotChunk(on: Reader, params: ChunkParams): Promise<Chunk> {
  const [row] = await on.all<ChunkRow>(chunkQuery(on.dialect, params));
  if (!row?.entries) return { entries: EMPTY, n: 0, last_id: null, first_expiry: null };
  const entries = typeof row.entries === "string" ? Buffer.from(row.entries) : row.entries;
  return { entries, n: row.n, last_id: lastId(entries), first_expiry: row.first_expiry };
}

function lastId(entries: Buffer): string {
  const at = entries.lastIndexOf(ENTRY_START) + ENTRY_START.length;
  return entries.toString("latin1", at, entries.indexOf('"', at));
}

export function changesSince(on: Reader, params: ChangesParams): Promise<Change[]> {
  return on.all<Change>(changesQuery(on.dialect, params));
}

export type HeadRow = Pick<
  ProjectRow,
  | "id"
  | "workspace_id"
  | "policy_version"
  | "min_delta_version"
  | "default_rate_limits"
  | "deleted_at"
  | "features"
  | "key_prefixes"
> & {
  /** Who created its workspace; only if heads are cached. */
  account_id?: string | null;
};

const HEAD =
  "id, workspace_id, policy_version, min_delta_version, default_rate_limits, deleted_at, features, key_prefixes";
/** One parameter for any number of ids, so that the statement stays prepared. */
const HEADS_BY_IDS = {
  sqlite: `select ${HEAD}, (select created_by from workspaces w where w.id = workspace_id) as account_id
    from projects where id in (select value from json_each(?))`,
  postgres: `select ${HEAD} from projects where id = any(string_to_array($1, ','))`,
};

/** Includes deleted projects: their last version removes every key. Of any workspace: the caller compares it. */
export function headsByIds(on: Reader, ids: readonly string[]): Promise<HeadRow[]> {
  const list = on.dialect === "sqlite" ? JSON.stringify(ids) : ids.join(",");
  return on.all<HeadRow>({ sql: HEADS_BY_IDS[on.dialect], values: [list] });
}

export const versionChangedAt = rowBy("policy_versions", ["project_id", "version"]);

export const oldestVersion = statement<{ project_id: string }>()((db, p) =>
  db
    .selectFrom("policy_versions")
    .select(["version", "changed_at"])
    .where("project_id", "=", p.project_id)
    .orderBy("version")
    .limit(1),
);

export const projectsAfter = statement<{ after: string; limit: number }>()((db, p) =>
  db.selectFrom("projects").select(["id", "policy_version"]).where("id", ">", p.after).orderBy("id").limit(p.limit),
);

/** Deletes versions up to `upTo`, and those older than `changedBefore`. */
export const reapVersions = deletePiece<{ project_id: string; upTo: number; changedBefore: number }>()(
  "policy_versions",
  ["project_id", "version"],
  (p) => sql`project_id = ${p.project_id} and (version <= ${p.upTo} or changed_at < ${p.changedBefore})`,
);
