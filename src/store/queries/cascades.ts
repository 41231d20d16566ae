// Revokes the keys of a deleted project or tenant, in pieces. A row of `cascades` says that it has begun: key reads
// (keys.ts, policy.sqlite.ts, policy.postgres.ts) take it into account.
import { sql } from "kysely";
import { columns, compileQuery, countRows, statement, type Builder } from "../engine/statement.ts";
import type { Query, Reader, Tx } from "../engine/tx.ts";
import type { CascadeRow } from "../schema/tables.ts";

export const insertCascade = statement<CascadeRow>()((db, p) =>
  db.insertInto("cascades").values(columns(p, ["id", "workspace_id", "cause", "reason", "revoked_at"])),
);

export const oldestCascade = statement<Record<string, never>>()((db) =>
  db.selectFrom("cascades").selectAll().orderBy("revoked_at").orderBy("id").limit(1),
);

export const dropCascade = statement<{ id: string }>()((db, p) => db.deleteFrom("cascades").where("id", "=", p.id));

/** All keys of a project, or those of one tenant in it. */
export type KeyScope = { workspace_id: string; project_id: string; tenant_id?: string | undefined };

/** The keys of a scope that nothing had revoked by `at`. */
function workingKeys(db: Builder, scope: KeyScope, at: number) {
  const query = db
    .selectFrom("api_keys")
    .where("workspace_id", "=", scope.workspace_id)
    .where("project_id", "=", scope.project_id)
    .where("revoked_at", "is", null);
  if (scope.tenant_id !== undefined) return query.where("tenant_id", "=", scope.tenant_id);
  const earlier = db.selectFrom("cascades").select("id").where("revoked_at", "<=", at);
  return query.where("tenant_id", "not in", earlier);
}

/** Returns `{ n }`. Of a million keys it takes 100 ms. */
export function countWorkingKeys(on: Reader, scope: KeyScope, at: number): Query {
  return compileQuery(on, (db) => workingKeys(db, scope, at).select(countRows));
}

/** The sizes of up to `limit` rows, in the order in which `revokeWorkingKeys` takes them. */
export async function sizesOfWorkingKeys(on: Reader, scope: KeyScope, at: number, limit: number): Promise<number[]> {
  const bytes = sql<number>`octet_length(meta) + octet_length(scopes) + coalesce(octet_length(rate_limits), 0)`;
  const query = compileQuery(on, (db) =>
    workingKeys(db, scope, at).select(bytes.as("bytes")).orderBy("tenant_id").limit(limit),
  );
  return (await on.all<{ bytes: number }>(query)).map((row) => row.bytes);
}

export type Revocation = Pick<CascadeRow, "cause" | "reason" | "revoked_at"> & {
  /** At which nodes learn of it; null where they take a new snapshot instead. */
  policy_version: number | null;
};

/** Revokes the first `limit` keys of a scope. Returns how many there were. */
export function revokeWorkingKeys(tx: Tx, scope: KeyScope, revocation: Revocation, limit: number): Promise<number> {
  const { cause, reason, revoked_at, policy_version } = revocation;
  const query = compileQuery(tx, (db) =>
    db
      .updateTable("api_keys")
      .set({ revoked_at, revoked_reason: reason, revoked_cause: cause, ...(policy_version && { policy_version }) })
      .where("id", "in", workingKeys(db, scope, revoked_at).select("id").orderBy("tenant_id").limit(limit)),
  );
  return tx.run(query);
}

/** Makes the keys of a scope changes of a policy version, although their rows stay as they are. */
export function touchKeysOf(tx: Tx, scope: KeyScope, policy_version: number, at: number): Promise<number> {
  const query = compileQuery(tx, (db) =>
    db
      .updateTable("api_keys")
      .set({ policy_version })
      .where("id", "in", workingKeys(db, scope, at).select("id")),
  );
  return tx.run(query);
}

/** Projects in which a tenant has keys that are not revoked; of deleted projects only where `deleted`. */
export async function projectsWithKeysOf(
  on: Reader,
  { workspace_id, tenant_id, deleted }: { workspace_id: string; tenant_id: string; deleted: boolean },
): Promise<string[]> {
  const query = compileQuery(on, (db) => {
    const projects = db
      .selectFrom("projects")
      .select("projects.id")
      .where("projects.workspace_id", "=", workspace_id)
      .where((eb) =>
        eb.exists(
          eb
            .selectFrom("api_keys")
            .select("api_keys.id")
            .where("api_keys.workspace_id", "=", workspace_id)
            .whereRef("api_keys.project_id", "=", "projects.id")
            .where("api_keys.tenant_id", "=", tenant_id)
            .where("api_keys.revoked_at", "is", null),
        ),
      )
      .orderBy("projects.id");
    return deleted ? projects : projects.where("projects.deleted_at", "is", null);
  });
  return (await on.all<{ id: string }>(query)).map(({ id }) => id);
}
