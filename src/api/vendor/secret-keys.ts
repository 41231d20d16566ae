// Secret keys.
import { z } from "zod";
import {
  createSecretKey,
  listSecretKeys,
  revokeSecretKey,
  rotateSecretKey,
  showSecretKey,
} from "../../domain/keys/secret-keys.ts";
import { PERMISSIONS } from "../../domain/core/actor.ts";
import { endpoint } from "../../http/endpoint.ts";
import {
  AfterQuery,
  ById,
  distinct,
  Env,
  Flag,
  listOf,
  Meta,
  Name,
  OverlapHours,
  Reason,
  Timestamp,
  toMs,
  Uuid,
} from "../schemas.ts";
import { MintedSecretKey, RevokedSecretKey, RotatedSecretKey, SecretKey, WorkingSuccessor } from "./schemas.ts";

const PROJECT_IDS_MAX = 50;

export const secretKeysCreate = endpoint("POST /v1/secret_keys", {
  summary: "Create a secret key for your own backend. The key is shown only in this response.",
  access: "secret_keys.create",
  body: z.strictObject({
    env: Env.describe("environment of the key"),
    name: Name.optional().describe("name, shown in lists"),
    meta: Meta.optional(),
    expires_at: Timestamp.optional().describe("when the key expires; never by default"),
    permissions: distinct(z.enum(PERMISSIONS), 1, PERMISSIONS.length)
      .optional()
      .describe("what the key may do; everything that its role may by default"),
    project_ids: distinct(Uuid, 1, PROJECT_IDS_MAX)
      .optional()
      .describe("the only projects that it may be used for; needs permissions"),
  }),
  output: MintedSecretKey,
  status: 201,
  idempotent: true,
  failures: ["test_cannot_live", "quota_reached", "project_not_found", "older_process"],
  emits: ["secret_key.created"],
  handle: (ctx, { body }) => createSecretKey(ctx, { ...body, expires_at: toMs(body.expires_at) ?? undefined }),
});

export const secretKeysList = endpoint("GET /v1/secret_keys", {
  summary: "List secret keys, newest first, including revoked and expired ones.",
  access: "secret_keys.read",
  query: AfterQuery.extend({
    env: Env.optional().describe("only keys of this environment"),
    state: z.enum(["quarantined"]).optional().describe("quarantined: only leaked keys that are not revoked"),
  }),
  output: listOf(SecretKey.extend({ successor_id: WorkingSuccessor })),
  failures: ["test_cannot_live"],
  handle: (ctx, { query }) => listSecretKeys(ctx, query),
});

export const secretKeysShow = endpoint("GET /v1/secret_keys/{id}", {
  summary: "Show a secret key.",
  access: "secret_keys.read",
  params: ById,
  output: SecretKey,
  failures: ["secret_key_not_found"],
  handle: (ctx, { params }) => showSecretKey(ctx, params.id),
});

export const secretKeysRotate = endpoint("POST /v1/secret_keys/{id}/rotate", {
  summary: "Rotate a secret key. The old one keeps working for overlap_hours.",
  access: "secret_keys.write",
  params: ById,
  body: z.strictObject({ overlap_hours: OverlapHours.default(24) }),
  output: RotatedSecretKey,
  idempotent: true,
  endsOwnKey: true,
  failures: [
    "secret_key_not_found",
    "test_cannot_live",
    "revoked_not_rotatable",
    "quarantined_not_rotatable",
    "successor_still_valid",
    "quota_reached",
  ],
  emits: ["secret_key.rotated", "secret_key.revoked"],
  handle: (ctx, { params, body }) => rotateSecretKey(ctx, params.id, body.overlap_hours),
});

export const secretKeysRevoke = endpoint("POST /v1/secret_keys/{id}/revoke", {
  summary: "Revoke a secret key.",
  access: "secret_keys.write",
  params: ById,
  query: z.strictObject({
    successors: Flag.default("false").describe(
      "also revoke the keys it was rotated into, up to 100; needs an unrestricted credential",
    ),
  }),
  body: z.strictObject({ reason: Reason.optional() }),
  output: RevokedSecretKey,
  idempotent: true,
  endsOwnKey: true,
  failures: ["secret_key_not_found", "test_cannot_live"],
  emits: ["secret_key.revoked"],
  handle: (ctx, { params, query, body }) =>
    revokeSecretKey(ctx, params.id, { ...body, successors: query.successors === "true" }),
});
