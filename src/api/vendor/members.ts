// Members of the workspace.
import { z } from "zod";
import { REVOKE } from "../../domain/workspaces/left-behind.ts";
import { changeRole, listMembers, removeMember, showLeftBehind } from "../../domain/workspaces/members.ts";
import { endpoint } from "../../http/endpoint.ts";
import { Role } from "../person/schemas.ts";
import { AfterQuery, Env, listOf, Timestamp, Uuid } from "../schemas.ts";

const Member = z.strictObject({
  object: z.literal("workspace_member"),
  user_id: Uuid,
  email: z.string(),
  email_verified: z.boolean(),
  name: z.string().nullable(),
  role: Role,
  created_at: Timestamp,
  updated_at: Timestamp,
});
/** At most 100 of each kind. */
const leftBehind = {
  secret_keys: z.array(
    z.strictObject({
      id: Uuid,
      env: Env,
      display_prefix: z.string(),
      owner_scope: z.boolean(),
      last_used_at: Timestamp.nullable(),
    }),
  ),
  invites: z.array(z.strictObject({ id: Uuid, email: z.string(), role: Role, expires_at: Timestamp })),
  more: z.boolean(),
};
const LeftBehind = z
  .strictObject(leftBehind)
  .optional()
  .describe("secret keys that the person created and invitations that they sent, which stay valid");
const ByUser = z.strictObject({ userId: Uuid.describe("id of the member's user") });

export const membersList = endpoint("GET /v1/members", {
  summary: "List members, oldest first.",
  access: "members.read",
  query: AfterQuery,
  output: listOf(Member),
  handle: (ctx, { query }) => listMembers(ctx, query),
});

export const membersUpdate = endpoint("PATCH /v1/members/{userId}", {
  summary: "Change a member's role. The last owner cannot be demoted.",
  access: "members.write",
  params: ByUser,
  body: z.strictObject({ role: Role.describe("role in the workspace") }),
  output: Member.extend({ left_behind: LeftBehind }),
  failures: ["member_not_found", "last_owner", "member_workspaces_reached"],
  emits: ["workspace_member.role_changed"],
  handle: (ctx, { params, body }) => changeRole(ctx, params.userId, body.role),
});

export const membersDelete = endpoint("DELETE /v1/members/{userId}", {
  summary: "Remove a member. Their access ends immediately.",
  access: "members.write",
  params: ByUser,
  query: z.strictObject({
    revoke: z
      .enum(REVOKE)
      .default("none")
      .describe("what else to revoke: nothing, their pending invitations, or these and the secret keys they created"),
  }),
  output: z.strictObject({
    object: z.literal("workspace_member"),
    user_id: Uuid,
    removed: z.literal(true),
    left_behind: LeftBehind,
  }),
  failures: ["member_not_found", "last_owner"],
  emits: ["workspace_member.removed", "workspace_invite.revoked", "secret_key.revoked"],
  handle: (ctx, { params, query }) => removeMember(ctx, params.userId, query.revoke),
});

export const membersLeftBehind = endpoint("GET /v1/members/{userId}/left_behind", {
  summary: "List the secret keys and invitations that would remain if the member were removed.",
  access: "members.write",
  params: ByUser,
  output: z.strictObject({ object: z.literal("left_behind"), user_id: Uuid, ...leftBehind }),
  failures: ["member_not_found"],
  handle: (ctx, { params }) => showLeftBehind(ctx, params.userId),
});
