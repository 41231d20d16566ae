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
import { AfterQuery, ById, listOf, Name, RateLimits, Slug, Uuid } from "../schemas.ts";
import { KeyPolicy, Project, ScopeCatalogue } from "./schemas.ts";

const fields = {
  default_rate_limits: RateLimits.optional(),
  key_policy: KeyPolicy.optional(),
  scope_catalogue: ScopeCatalogue.optional(),
};

export const projectsCreate = endpoint("POST /v1/projects", {
  summary: "Create a project.",
  access: "projects.create",
  body: z.strictObject({ name: Name, slug: Slug, ...fields }),
  output: Project,
  status: 201,
  idempotent: true,
  failures: ["slug_taken", "quota_reached"],
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
  output: Project,
  failures: ["project_not_found"],
  emits: ["project.updated"],
  handle: (ctx, { params, body }) => editProject(ctx, params.id, body),
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
