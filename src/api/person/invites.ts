// Accepting invitations.
import { z } from "zod";
import { acceptInvite } from "../../domain/workspaces/invites.ts";
import { endpoint } from "../../http/endpoint.ts";
import { Uuid } from "../schemas.ts";
import { OneTimeToken, Role } from "./schemas.ts";

export const invitesAccept = endpoint("POST /v1/auth/invites/accept", {
  summary: "Join a workspace with an invitation token.",
  access: "auth.own",
  body: z.strictObject({ token: OneTimeToken.describe("token of the invitation") }),
  output: z.strictObject({
    object: z.literal("workspace_member"),
    workspace_id: Uuid,
    user_id: Uuid,
    role: Role,
    active: z.boolean(),
  }),
  failures: ["invalid_token", "email_unverified", "already_member", "quota_reached", "workspaces_reached"],
  emits: ["workspace_invite.accepted", "workspace_member.joined", "user.email_verified"],
  handle: (ctx, { body }) => acceptInvite(ctx, body.token),
});
