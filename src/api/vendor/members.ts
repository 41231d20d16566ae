// Members of the workspace.
import { z } from "zod";
import { changeRole, listMembers, removeMember } from "../../domain/workspaces/members.ts";
import { endpoint } from "../../http/endpoint.ts";
import { Role } from "../person/schemas.ts";
import { listOf, Timestamp, Uuid } from "../schemas.ts";

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
const ByUser = z.strictObject({ userId: Uuid.describe("id of the member's user") });

export const membersList = endpoint("GET /v1/members", {
  summary: "List members, oldest first.",
  access: "members.read",
  output: listOf(Member),
  handle: (ctx) => listMembers(ctx),
});

export const membersUpdate = endpoint("PATCH /v1/members/{userId}", {
  summary: "Change a member's role. The last owner cannot be demoted.",
  access: "members.write",
  params: ByUser,
  body: z.strictObject({ role: Role }),
  output: Member,
  failures: ["member_not_found", "last_owner"],
  emits: ["workspace_member.role_changed"],
  handle: (ctx, { params, body }) => changeRole(ctx, params.userId, body.role),
});

export const membersDelete = endpoint("DELETE /v1/members/{userId}", {
  summary: "Remove a member. Their access ends immediately.",
  access: "members.write",
  params: ByUser,
  output: z.strictObject({ object: z.literal("workspace_member"), user_id: Uuid, removed: z.literal(true) }),
  failures: ["member_not_found", "last_owner"],
  emits: ["workspace_member.removed"],
  handle: (ctx, { params }) => removeMember(ctx, params.userId),
});
