// Workspaces.
import { z } from "zod";
import { createWorkspace, editWorkspace, showWorkspace } from "../../domain/workspaces/workspaces.ts";
import { endpoint } from "../../http/endpoint.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import { Email, Env, Name, Slug } from "../schemas.ts";
import { EmbedOrigins } from "./origins.ts";
import { MintedSecretKey, Workspace } from "./schemas.ts";

export const workspacesCreate = endpoint("POST /v1/workspaces", {
  summary: "Create a workspace and its first secret key. The key is shown only in this response.",
  access: "workspaces.create",
  body: z.strictObject({
    name: Name,
    slug: Slug,
    billing_email: Email.optional(),
    env: Env.default("live").describe("environment of the secret key"),
  }),
  output: z.strictObject({
    workspace: Workspace,
    secret_key: MintedSecretKey,
    membership: z.strictObject({ user_id: z.string(), role: z.string() }).nullable(),
  }),
  status: 201,
  tokensPerNetwork: { name: "bootstrap", limit: 60, windowMs: MINUTE_MS },
  idempotent: true,
  changesWorkspace: true,
  failures: ["slug_taken", "workspaces_reached"],
  emits: ["workspace.created", "workspace_member.joined", "secret_key.created"],
  handle: (ctx, { body }) => createWorkspace(ctx, body),
});

export const workspaceShow = endpoint("GET /v1/workspace", {
  summary: "Show the workspace of the credential.",
  access: "workspace.read",
  output: Workspace,
  handle: (ctx) => showWorkspace(ctx),
});

export const workspaceUpdate = endpoint("PATCH /v1/workspace", {
  summary: "Change the workspace.",
  access: "workspace.write",
  body: z.strictObject({
    name: Name.optional(),
    billing_email: Email.nullable().optional(),
    embed_origins: EmbedOrigins.optional().describe("origins of pages that may embed the portal"),
  }),
  output: Workspace,
  emits: ["workspace.updated"],
  handle: (ctx, { body }) => editWorkspace(ctx, body),
});
