// Embed tokens are created by the vendor's backend: never by a browser, and never with a cached credential.
import { z } from "zod";
import { mintEmbedToken } from "../../domain/embed/tokens.ts";
import { endpoint } from "../../http/endpoint.ts";
import { Env, text, Timestamp, Uuid } from "../schemas.ts";

const EmbedScope = text(1, 220).refine((scope) => /^(keys:read|keys:write|key_scope:.+)$/s.test(scope), {
  error: "must be keys:read, keys:write or key_scope:<scope>",
});

export const embedTokensCreate = endpoint("POST /v1/embed_tokens", {
  summary: "Create a five-minute token that lets a tenant's browser manage the tenant's keys.",
  access: "embed_tokens.mint",
  backendOnly: true,
  body: z.strictObject({
    project_id: Uuid.describe("project whose keys are managed"),
    env: Env.describe("environment whose keys are managed"),
    tenant_id: Uuid.describe("tenant whose keys are managed: that of the person who is signed in"),
    scopes: z
      .array(EmbedScope)
      .max(32, { error: "must have at most 32 entries" })
      .default(["keys:read"])
      .describe("what the token allows: keys:read, keys:write, and key_scope:<scope> for each scope that keys may get"),
    origins: z
      .array(text(1, 255))
      .max(20, { error: "must have at most 20 entries" })
      .optional()
      .describe("origins of your pages that may use the token; all embed_origins of the workspace by default"),
  }),
  output: z.strictObject({
    object: z.literal("embed_token"),
    token: z.string(),
    jti: Uuid,
    kid: z.string(),
    project_id: Uuid,
    env: Env,
    tenant_id: Uuid,
    tenant_external_id: z.string(),
    scopes: z.array(z.string()),
    audience: z.array(z.string()),
    epoch: z.int(),
    issued_at: Timestamp,
    expires_at: Timestamp,
    expires_in: z.int(),
    refresh_after: Timestamp,
  }),
  status: 201,
  failures: ["project_not_found", "tenant_not_found", "test_cannot_live"],
  handle: (ctx, { body }) => mintEmbedToken(ctx, body),
});
