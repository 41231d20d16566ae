// Projects.
import { z } from "zod";
import {
  createProject,
  deleteProject,
  editProject,
  listProjects,
  showProject,
} from "../../domain/workspaces/projects.ts";
import { BLOCKS } from "../../domain/key-policy/idle.ts";
import { reportKeyPolicy, type PolicyOverrides } from "../../domain/key-policy/report.ts";
import { endpoint } from "../../http/endpoint.ts";
import { AfterQuery, ById, Env, KeyPrefix, listOf, Name, RateLimits, Slug, Timestamp, Uuid } from "../schemas.ts";
import { needsOfPrefix, warnOfNodes } from "../../domain/nodes/needs.ts";
import { NO_CAPS } from "../../kernel/policy/capabilities.ts";
import { KeyPolicy, KeyPolicyFields, Project, RevokedKeys, ScopeCatalogue, Warnings } from "./schemas.ts";

const fields = {
  default_rate_limits: RateLimits.optional().describe(
    "rate limits of keys that have none of their own, of their tenant or of its plan",
  ),
  key_policy: KeyPolicy.optional().describe("rules for the expiry and rotation of keys, and for idle keys"),
  scope_catalogue: ScopeCatalogue.optional().describe("scopes offered in the portal and the dashboard"),
  key_prefix: KeyPrefix.optional(),
};

export const projectsCreate = endpoint("POST /v1/projects", {
  summary: "Create a project.",
  access: "projects.create",
  body: z.strictObject({ name: Name, slug: Slug, ...fields }),
  output: Project,
  status: 201,
  idempotent: true,
  failures: ["slug_taken", "quota_reached", "prefix_taken", "prefix_quota", "older_process"],
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
  failures: ["project_not_found", "prefix_taken", "prefix_quota", "older_process"],
  emits: ["project.updated"],
  handle: async (ctx, { params, body }) => {
    const project = await editProject(ctx, params.id, body);
    const needs = body.key_prefix === undefined ? NO_CAPS : needsOfPrefix(`${project.key_prefix}_`);
    return warnOfNodes(ctx, project, [{ project_id: project.id, env: null }], needs);
  },
});

const override = (min: number) =>
  z
    .string()
    .regex(/^(off|[1-9]\d{0,3})$/, { error: "must be a number of days, or off", abort: true })
    .refine((text) => text === "off" || (Number(text) >= min && Number(text) <= 3650), {
      error: `must be ${min} to 3650, or off`,
    })
    .optional();
const ReportKey = z.strictObject({
  id: Uuid,
  tenant_id: Uuid,
  env: Env,
  display_prefix: z.string(),
  name: z.string().nullable(),
  created_at: Timestamp,
  expires_at: Timestamp.nullable(),
  last_used_at: Timestamp.nullable(),
  would_end_at: Timestamp,
});
const Blocked = z.enum(BLOCKS).nullable();

export const projectsKeyPolicyReport = endpoint("GET /v1/projects/{id}/key_policy/report", {
  summary: "Show how the project's key policy, or the one in the query, affects existing keys. Changes nothing.",
  access: "keys.read",
  params: ById,
  query: z.strictObject({
    default_ttl_days: override(1).describe("instead of the stored value; off = none"),
    max_ttl_days: override(1).describe("instead of the stored value; off = none"),
    idle_revoke_days: override(7).describe("instead of the stored value; off = never"),
  }),
  output: z.strictObject({
    object: z.literal("key_policy_report"),
    project_id: Uuid,
    policy: KeyPolicyFields,
    generated_at: Timestamp,
    active_keys: z.int(),
    affected_tenants: z.int(),
    over_max_ttl: z.strictObject({ count: z.int(), keys: z.array(ReportKey) }),
    idle: z.strictObject({
      count: z.int(),
      blocked_by: z.strictObject({ live: Blocked, test: Blocked }).describe("why no key is revoked now"),
      keys: z.array(ReportKey),
    }),
  }),
  failures: ["project_not_found", "share_full"],
  handle: (ctx, { params, query }) => {
    const given = Object.entries(query).filter(([, text]) => text !== undefined);
    const overrides = given.map(([name, text]) => [name, text === "off" ? null : Number(text)]);
    return reportKeyPolicy(ctx, params.id, Object.fromEntries(overrides) as PolicyOverrides);
  },
});

export const projectsDelete = endpoint("DELETE /v1/projects/{id}", {
  summary: "Delete a project and revoke its keys.",
  access: "projects.change",
  params: ById,
  output: z.strictObject({
    object: z.literal("project"),
    id: Uuid,
    deleted: z.literal(true),
    revoked_keys: RevokedKeys,
  }),
  failures: ["project_not_found"],
  emits: ["project.deleted"],
  handle: (ctx, { params }) => deleteProject(ctx, params.id),
});
