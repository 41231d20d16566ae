// Projects.
import { z } from "zod";
import {
  createProject,
  deleteProject,
  editProject,
  listProjects,
  showProject,
} from "../../domain/workspaces/projects.ts";
import { endpoint } from "../../http/endpoint.ts";
import { AfterQuery, ById, KeyPrefix, listOf, Name, RateLimits, Slug, Uuid } from "../schemas.ts";
import { needsOf, withNodeWarnings } from "../../domain/policy/needs.ts";
import { NO_CAPS } from "../../kernel/policy/capabilities.ts";
import { KeyPolicy, Project, ScopeCatalogue, Warnings } from "./schemas.ts";

const fields = {
  default_rate_limits: RateLimits.optional(),
  key_policy: KeyPolicy.optional(),
  scope_catalogue: ScopeCatalogue.optional(),
  key_prefix: KeyPrefix.optional(),
};

export const projectsCreate = endpoint("POST /v1/projects", {
  summary: "Create a project.",
  access: "projects.create",
  body: z.strictObject({ name: Name, slug: Slug, ...fields }),
  output: Project,
  status: 201,
  idempotent: true,
  failures: ["slug_taken", "quota_reached", "prefix_taken", "prefix_quota"],
  emits: ["project.created"],
  handle: (ctx, { body }) => createProject(ctx, body),
});

export const projectsList = endpoint("GET /v1/projects", {
  summary: "List projects, newest first.",
  access: "resources.read",
  query: AfterQuery,
  output: listOf(Project),
  handle: (ctx, { query }) => listProjects(ctx, query),
});

export const projectsShow = endpoint("GET /v1/projects/{id}", {
  summary: "Show a project.",
  access: "resources.read",
  params: ById,
  output: Project,
  failures: ["project_not_found"],
  handle: (ctx, { params }) => showProject(ctx, params.id),
});

export const projectsUpdate = endpoint("PATCH /v1/projects/{id}", {
  summary: "Change a project. Nodes receive new default rate limits with their next poll.",
  access: "projects.change",
  params: ById,
  body: z.strictObject({ name: Name.optional(), ...fields }),
  output: Project.extend({ warnings: Warnings }),
  failures: ["project_not_found", "prefix_taken", "prefix_quota"],
  emits: ["project.updated"],
  handle: async (ctx, { params, body }) => {
    const project = await editProject(ctx, params.id, body);
    const needs = body.key_prefix === undefined ? NO_CAPS : needsOf({ display_prefix: `${project.key_prefix}_` });
    return withNodeWarnings(ctx, project, { project_id: project.id, env: null, needs, path: "key_prefix" });
  },
});

export const projectsDelete = endpoint("DELETE /v1/projects/{id}", {
  summary: "Delete a project and revoke its keys.",
  access: "projects.change",
  params: ById,
  output: z.strictObject({ object: z.literal("project"), id: Uuid, deleted: z.literal(true), revoked_keys: z.int() }),
  failures: ["project_not_found"],
  emits: ["project.deleted"],
  handle: (ctx, { params }) => deleteProject(ctx, params.id),
});
