// Projects. Every query is scoped to the workspace; deleted projects are not found.
import type { Env } from "../../kernel/credentials.ts";
import { insertRow, rowBy, updateRow } from "../engine/rows.ts";
import { countRows, statement } from "../engine/statement.ts";
import { countLive, liveById, markDeleted, pageKeyOf } from "./records.ts";

export const insertProject = insertRow("projects", [
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
]);

export const liveProjectById = liveById("projects");

export const countProjects = countLive("projects");

/** Counts projects that credentials of one environment created. */
export const countProjectsCreatedIn = statement<{ workspace_id: string; env: Env }>()((db, p) =>
  db
    .selectFrom("projects")
    .select(countRows)
    .where("workspace_id", "=", p.workspace_id)
    .where("created_env", "=", p.env)
    .where("deleted_at", "is", null),
);

export const projectPageKey = pageKeyOf("projects");

export const updateProject = updateRow(
  "projects",
  ["id", "workspace_id"],
  [
    "name",
    "default_rate_limits",
    "key_policy",
    "scope_catalogue",
    "idle_changed_at",
    "updated_at",
    "key_prefix",
    "key_prefixes",
  ],
);

export const markProjectDeleted = markDeleted("projects");

/** A deleted one too. */
export const anyProjectById = rowBy("projects", ["workspace_id", "id"]);

/** Projects with rules of their own for keys. */
export const projectPolicies = statement<{ workspace_id: string }>()((db, p) =>
  db
    .selectFrom("projects")
    .select(["id", "key_policy"])
    .where("workspace_id", "=", p.workspace_id)
    .where("key_policy", "is not", null)
    .where("deleted_at", "is", null),
);
