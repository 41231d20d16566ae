// Setup of an instance that has no owner yet. The token from the setup link is the only credential.
import { z } from "zod";
import { completeSetup, showSetup } from "../../domain/workspaces/setup.ts";
import { endpoint } from "../../http/endpoint.ts";
import { Email, Name, Slug } from "../schemas.ts";
import { MintedApiKey, MintedSecretKey, Project, Tenant, Workspace } from "../vendor/schemas.ts";
import { NewPassword, OneTimeToken, Session } from "./schemas.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";

export const setupShow = endpoint("GET /v1/setup", {
  summary: "Whether this server can still be set up with a setup link, and what its login pages need to know.",
  access: "auth.open",
  output: z.strictObject({
    object: z.literal("setup"),
    open: z.boolean(),
    password_min: z.int(),
    sign_up: z.enum(["open", "invite", "closed"]),
    unverified_login: z.enum(["allow", "refuse"]),
    mail: z.enum(["file", "smtp", "log"]),
  }),
  handle: ({ services }) => showSetup(services),
});

export const setupComplete = endpoint("POST /v1/setup", {
  summary:
    "Claim a server without an owner, with the token of its setup link: creates the owner, a session, a workspace, a project, a tenant and two test keys. The keys are shown only in this response.",
  access: "auth.open",
  perNetwork: { name: "setup", limit: 60, windowMs: MINUTE_MS },
  body: z.strictObject({
    token: OneTimeToken,
    email: Email,
    password: NewPassword,
    name: Name.optional(),
    workspace_name: Name,
    workspace_slug: Slug,
    project_name: Name.default("My API"),
    project_slug: Slug.default("my-api"),
  }),
  output: z.strictObject({
    object: z.literal("setup"),
    session: Session,
    workspace: Workspace,
    project: Project,
    tenant: Tenant,
    secret_key: MintedSecretKey,
    api_key: MintedApiKey,
    command: z.string().describe("how the program is called in a shell on the server: its name, or its path"),
  }),
  status: 201,
  failures: ["setup_done", "invalid_token", "slug_taken", "user_exists", "overloaded"],
  emits: [
    "workspace.created",
    "workspace_member.joined",
    "secret_key.created",
    "project.created",
    "tenant.created",
    "api_key.created",
    "user.created",
    "user.password_reset",
    "user.email_verified",
    "session.created",
    "setup.completed",
  ],
  handle: (ctx, { body }) => completeSetup(ctx, body),
});
