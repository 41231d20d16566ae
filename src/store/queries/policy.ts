// What the policy feed reads: a project's head, snapshot entries in chunks, changes since a version, and the delta log.
// Entries arrive as finished JSON; nothing here parses or builds one in JavaScript.
import * as postgres from "./policy.postgres.ts";
import * as sqlite from "./policy.sqlite.ts";
import { statement, type Reader } from "../engine/statement.ts";
import type { ChangesParams, ChunkParams } from "./policy-params.ts";

export type Chunk = { entries: Buffer; n: number; last_id: string | null; first_expiry: number | null };
export type Change = { policy_version: number; entry: string };

type ChunkRow = Pick<Chunk, "n" | "first_expiry"> & { entries: Buffer | string | null };

const NOTHING = Buffer.alloc(0);
/** How each begins. No text in an entry reads like it: a quote inside a text is escaped. */
const BEGINNING = '{"key_id":"';

const dialects = { sqlite, postgres };

export async function snapshotChunk(on: Reader, wanted: ChunkParams): Promise<Chunk> {
  const [row] = await on.all<ChunkRow>(dialects[on.dialect].chunkQuery(wanted));
  if (!row?.entries) return { entries: NOTHING, n: 0, last_id: null, first_expiry: null };
  const entries = typeof row.entries === "string" ? Buffer.from(row.entries) : row.entries;
  return { entries, n: row.n, last_id: lastId(entries), first_expiry: row.first_expiry };
}

function lastId(entries: Buffer): string {
  const at = entries.lastIndexOf(BEGINNING) + BEGINNING.length;
  return entries.toString("latin1", at, entries.indexOf('"', at));
}

export function changesSince(on: Reader, wanted: ChangesParams): Promise<Change[]> {
  return on.all<Change>(dialects[on.dialect].changesQuery(wanted));
}

/** A project as the feed sees it: a deleted one still has a last word to say. */
export const headById = statement<{ id: string }>()((db, p) =>
  db
    .selectFrom("projects")
    .select(["id", "workspace_id", "policy_version", "min_delta_version", "default_rate_limits", "deleted_at"])
    .where("id", "=", p.id),
);

export const versionChangedAt = statement<{ project_id: string; version: number }>()((db, p) =>
  db
    .selectFrom("policy_versions")
    .select("changed_at")
    .where("project_id", "=", p.project_id)
    .where("version", "=", p.version),
);

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

/** Forgets versions up to `upTo`, and those changed before `changedBefore`. */
export const dropVersions = statement<{ project_id: string; upTo: number; changedBefore: number }>()((db, p) =>
  db
    .deleteFrom("policy_versions")
    .where("project_id", "=", p.project_id)
    .where((eb) => eb.or([eb("version", "<=", p.upTo), eb("changed_at", "<", p.changedBefore)])),
);
