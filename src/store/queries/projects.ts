// Projects. Every query is scoped to the workspace; deleted projects are not found.
import type { Env } from "../../kernel/credentials.ts";
import { listLive, type PageKey } from "./page.ts";
import { columns, statement, type Reader } from "../engine/statement.ts";
import type { ProjectRow } from "../schema/tables.ts";

export const insertProject = statement<ProjectRow>()((db, p) =>
  db
    .insertInto("projects")
    .values(
      columns(p, [
        "id",
        "workspace_id",
        "name",
        "slug",
        "policy_version",
        "min_delta_version",
        "default_rate_limits",
        "key_policy",
        "scope_catalogue",
        "idle_changed_at",
        "created_env",
        "created_at",
        "updated_at",
        "deleted_at",
        "features",
        "key_prefix",
        "key_prefixes",
      ]),
    ),
);

export const liveProjectById = statement<{ workspace_id: string; id: string }>()((db, p) =>
  db
    .selectFrom("projects")
    .selectAll()
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id)
    .where("deleted_at", "is", null),
);

export const countProjects = statement<{ workspace_id: string }>()((db, p) =>
  db
    .selectFrom("projects")
    .select((eb) => eb.fn.countAll<number>().as("n"))
    .where("workspace_id", "=", p.workspace_id)
    .where("deleted_at", "is", null),
);

/** Counts projects that credentials of one environment created. */
export const countProjectsCreatedIn = statement<{ workspace_id: string; env: Env }>()((db, p) =>
  db
    .selectFrom("projects")
    .select((eb) => eb.fn.countAll<number>().as("n"))
    .where("workspace_id", "=", p.workspace_id)
    .where("created_env", "=", p.env)
    .where("deleted_at", "is", null),
);

/** The paging key of a row. Includes deleted rows, so that a client can continue after one. */
export const projectPageKey = statement<{ workspace_id: string; id: string }>()((db, p) =>
  db
    .selectFrom("projects")
    .select(["id", "created_at"])
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);

export const updateProject = statement<
  Pick<
    ProjectRow,
    | "workspace_id"
    | "id"
    | "name"
    | "default_rate_limits"
    | "key_policy"
    | "scope_catalogue"
    | "idle_changed_at"
    | "updated_at"
    | "key_prefix"
    | "key_prefixes"
  >
>()((db, p) =>
  db
    .updateTable("projects")
    .set(
      columns(p, [
        "name",
        "default_rate_limits",
        "key_policy",
        "scope_catalogue",
        "idle_changed_at",
        "updated_at",
        "key_prefix",
        "key_prefixes",
      ]),
    )
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);

export const markProjectDeleted = statement<{ workspace_id: string; id: string; now: number }>()((db, p) =>
  db
    .updateTable("projects")
    .set({ deleted_at: p.now, updated_at: p.now })
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);

export function listProjects(
  on: Reader,
  workspace_id: string,
  after: PageKey | null,
  limit: number,
  ids: readonly string[] | null,
): Promise<ProjectRow[]> {
  return listLive<ProjectRow>(on, "projects", workspace_id, after, limit, ids);
}

/** A deleted one too. */
export const anyProjectById = statement<{ workspace_id: string; id: string }>()((db, p) =>
  db.selectFrom("projects").selectAll().where("workspace_id", "=", p.workspace_id).where("id", "=", p.id),
);

/** Projects with rules of their own for keys. */
export const projectPolicies = statement<{ workspace_id: string }>()((db, p) =>
  db
    .selectFrom("projects")
    .select(["id", "key_policy"])
    .where("workspace_id", "=", p.workspace_id)
    .where("key_policy", "is not", null)
    .where("deleted_at", "is", null),
);
