// The index of words, names, scopes and last use. Derived after the commit of a key, in the order of policy versions: a
// mint pays nothing for it, and a crash only leaves it behind, never with gaps.
import { sql, type SqlBool } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { bulkInsert } from "../engine/bulk-insert.ts";
import { rawQuery, tableOf, type Bind } from "../engine/raw-query.ts";
import { rowBy } from "../engine/rows.ts";
import { countRows, selectRow, selectRows, statement, type Builder } from "../engine/statement.ts";
import type { Reader, Tx } from "../engine/tx.ts";
import type { ApiKeyRow, SearchTermRow, TenantRow } from "../schema/tables.ts";
import { isIn, notLookedUp } from "./id-lists.ts";

/** A term that is there already stays. */
export const writeTerms = bulkInsert<SearchTermRow>(["workspace_id", "kind", "term", "newest", "id"], (db, rows) =>
  db
    .insertInto("search_terms")
    .values(rows)
    .onConflict((oc) => oc.doNothing()),
);

export async function deleteTerms(on: Tx, terms: readonly SearchTermRow[]): Promise<void> {
  if (terms.length === 0) return;
  const columns = { workspace_id: "text", kind: "text", term: "text", newest: "bigint", id: "text" } as const;
  const text = (bind: Bind): string => `delete from search_terms
    where (workspace_id, kind, term, newest, id) in (${tableOf(on.dialect, bind, terms, columns)})`;
  await on.run(rawQuery(on.dialect, text));
}

/** Only moves forward: two passes over the same keys may overlap. */
export const saveProgress = statement<{ id: string; version: number; last_id: string }>()((db, p) =>
  db
    .insertInto("search_progress")
    .values({ id: p.id, version: p.version, last_id: p.last_id })
    .onConflict((oc) =>
      oc
        .column("id")
        .doUpdateSet({ version: p.version, last_id: p.last_id })
        .where(sql<SqlBool>`(search_progress.version, search_progress.last_id) < (excluded.version, excluded.last_id)`),
    ),
);

export const progressOf = rowBy("search_progress", ["id"]);

/** Projects of a workspace, with how far their keys are indexed. */
export const indexedProjects = statement<{ workspace_id: string }>()((db, p) =>
  withProgress(db).where("projects.workspace_id", "=", p.workspace_id),
);

/** Like `indexedProjects`, over all workspaces and in the order of ids. */
export const nextProjects = statement<{ after: string; limit: number }>()((db, p) =>
  withProgress(db).where("projects.id", ">", p.after).orderBy("projects.id").limit(p.limit),
);

function withProgress(db: Builder) {
  return db
    .selectFrom("projects")
    .leftJoin("search_progress as live", (join) => join.on("live.id", "=", sql<string>`projects.id || '/live'`))
    .leftJoin("search_progress as test", (join) => join.on("test.id", "=", sql<string>`projects.id || '/test'`))
    .select(["projects.id", "projects.workspace_id", "projects.policy_version"])
    .select((eb) => [
      eb.fn.coalesce("live.version", sql<number>`-1`).as("live_version"),
      eb.fn.coalesce("live.last_id", sql<string>`''`).as("live_last_id"),
      eb.fn.coalesce("test.version", sql<number>`-1`).as("test_version"),
      eb.fn.coalesce("test.last_id", sql<string>`''`).as("test_last_id"),
    ]);
}

/** What the index has of a key. */
export type IndexedKey = Pick<
  ApiKeyRow,
  "id" | "env" | "name" | "scopes" | "display_prefix" | "created_at" | "last_used_at"
>;
export type ChangedKey = IndexedKey & Pick<ApiKeyRow, "policy_version">;

type ChangesAfter = { project_id: string; env: Env; version: number; last_id: string; upTo: number; limit: number };

/**
 * Ids of a project's keys behind a version and id, up to another version, in that order. The index has keys of both
 * environments: `upTo` bounds how many of the other one are read in vain. A bulk change gives many keys the same
 * version, and all of those are read to put them in order.
 */
export const changedKeys = statement<ChangesAfter>()((db, p) =>
  db
    .selectFrom("api_keys")
    .select(["id", "policy_version"])
    .where("project_id", "=", p.project_id)
    .where("policy_version", ">=", p.version)
    .where("policy_version", "<=", p.upTo)
    .where("env", "=", p.env)
    .where(sql<SqlBool>`(policy_version, id) > (${p.version}, ${p.last_id})`)
    .orderBy("policy_version")
    .orderBy("id")
    .limit(p.limit),
);

/** Keys of a project by their ids, in any order. */
export function keysToIndex(on: Reader, project_id: string, ids: readonly string[]): Promise<IndexedKey[]> {
  return selectRows(on, (db, dialect) =>
    db
      .selectFrom("api_keys")
      .select(["id", "env", "name", "scopes", "display_prefix", "created_at", "last_used_at"])
      .where(notLookedUp("api_keys.project_id"), "=", project_id)
      .where(isIn("api_keys.id", ids, dialect)),
  );
}

/** The version of the key that is `keys` keys behind a version; none if there are fewer. Reads the index only. */
export const versionBehind = statement<{ project_id: string; version: number; keys: number }>()((db, p) =>
  db
    .selectFrom("api_keys")
    .select("policy_version")
    .where("project_id", "=", p.project_id)
    .where("policy_version", ">", p.version)
    .orderBy("policy_version")
    .limit(1)
    .offset(p.keys),
);

export type IndexedTenant = Pick<TenantRow, "id" | "workspace_id" | "external_id" | "name" | "created_at">;

/** Tenants of a workspace, oldest first. */
export const tenantsFrom = statement<{ workspace_id: string; created_at: number; last_id: string; limit: number }>()(
  (db, p) =>
    db
      .selectFrom("tenants")
      .select(["id", "workspace_id", "external_id", "name", "created_at"])
      .where("workspace_id", "=", p.workspace_id)
      .where(sql<SqlBool>`(created_at, id) > (${p.created_at}, ${p.last_id})`)
      .orderBy("created_at")
      .orderBy("id")
      .limit(p.limit),
);

export type TermPosition = Pick<SearchTermRow, "term" | "newest" | "id">;

type TermWalk = {
  workspace_id: string;
  kinds: readonly string[];
  /** The first term, and the first one behind the last. */
  from: string;
  below: string;
  direction: "asc" | "desc";
  after: TermPosition | null;
  limit: number;
};

type TermRange = Pick<TermWalk, "workspace_id" | "kinds" | "from" | "below"> & { tenantKind: string };

/** The number of records that a range of terms leads to, each part up to `max`: tenants lead to their keys. */
export async function countTermMatches(on: Reader, range: TermRange, max: number): Promise<number> {
  const { workspace_id, kinds, tenantKind, from, below } = range;
  const counted = await selectRow(on, (db) => {
    const terms = (kind: string) =>
      db
        .selectFrom("search_terms")
        .select("id")
        .where("workspace_id", "=", workspace_id)
        .where("kind", "=", kind)
        .where("term", ">=", from)
        .where("term", "<", below)
        .limit(max);
    // The tenants are of this workspace, and so are their keys: reading that from each of them would take ten times as
    // long.
    const keys = db
      .selectFrom(terms(tenantKind).as("walked"))
      .innerJoin("api_keys", "api_keys.tenant_id", "walked.id")
      .select("api_keys.id")
      .limit(max);
    const parts = [...kinds, tenantKind].map((kind) => db.selectFrom(terms(kind).as("part")).select("part.id"));
    const all = parts.reduce((union, part) => union.unionAll(part), db.selectFrom(keys.as("part")).select("part.id"));
    return db.selectFrom(all.as("matches")).select(countRows);
  });
  return counted?.n ?? 0;
}

/**
 * In the order of terms, newest first within each; backwards with `desc`. Two ranges, because one comparison would be
 * sorted.
 */
export async function walkTerms(on: Reader, walk: TermWalk): Promise<TermPosition[]> {
  const { after, limit } = walk;
  const rest = after ? await termRange(on, walk, "within", limit) : [];
  return rest.length === limit ? rest : [...rest, ...(await termRange(on, walk, "behind", limit - rest.length))];
}

/** `within`: what remains of the last term. `behind`: the terms after it, or all. */
function termRange(on: Reader, walk: TermWalk, part: "within" | "behind", limit: number): Promise<TermPosition[]> {
  const { workspace_id, kinds, from, below, direction, after } = walk;
  const isAsc = direction === "asc";
  return selectRows(on, (db) => {
    const ranges = kinds.map((kind) => {
      let query = db
        .selectFrom("search_terms")
        .select(["term", "newest", "id"])
        .where("workspace_id", "=", workspace_id)
        .where("kind", "=", kind);
      if (after && part === "within") {
        const place = sql`(${after.newest}, ${after.id})`;
        query = query
          .where("term", "=", after.term)
          .where(isAsc ? sql<SqlBool>`(newest, id) > ${place}` : sql<SqlBool>`(newest, id) < ${place}`);
      } else {
        query = query.where("term", after && isAsc ? ">" : ">=", after && isAsc ? after.term : from);
        query = query.where("term", "<", after && !isAsc ? after.term : below);
      }
      const ordered = query.orderBy("term", direction).orderBy("newest", direction).orderBy("id", direction);
      return db.selectFrom(ordered.limit(limit).as("part")).select(["part.term", "part.newest", "part.id"]);
    });
    const all = ranges.reduce((union, range) => union.unionAll(range));
    return all.orderBy("term", direction).orderBy("newest", direction).orderBy("id", direction).limit(limit);
  });
}
