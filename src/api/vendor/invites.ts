// Invitations into the workspace.
import { z } from "zod";
import { createInvite, listInvites, revokeInvite } from "../../domain/workspaces/invites.ts";
import { endpoint } from "../../http/endpoint.ts";
import { Role } from "../person/schemas.ts";
import { AfterQuery, ById, Email, listOf, EmptyBody, Timestamp, Uuid } from "../schemas.ts";

const Invite = z.strictObject({
  object: z.literal("workspace_invite"),
  id: Uuid,
  email: z.string(),
  role: Role,
  invited_by: Uuid.nullable(),
  created_at: Timestamp,
  expires_at: Timestamp,
  accepted_at: Timestamp.nullable(),
  revoked_at: Timestamp.nullable(),
});

export const invitesCreate = endpoint("POST /v1/invites", {
  summary:
    "Invite someone by email. The token is shown only in this response; the emailed link has a token of its own.",
  access: "members.write",
  body: z.strictObject({ email: Email, role: Role.describe("role in the workspace") }),
  output: Invite.extend({ token: z.string(), token_shown_once: z.literal(true) }),
  status: 201,
  idempotent: true,
  failures: ["already_member", "already_invited", "quota_reached", "invite_mails_spent", "mail_queue_full"],
  emits: ["workspace_invite.created"],
  handle: (ctx, { body }) => createInvite(ctx, body),
});

export const invitesList = endpoint("GET /v1/invites", {
  summary: "List invitations in every state, newest first.",
  access: "members.read",
  query: AfterQuery,
  output: listOf(Invite),
  handle: (ctx, { query }) => listInvites(ctx, query),
});

export const invitesRevoke = endpoint("POST /v1/invites/{id}/revoke", {
  summary: "Revoke an invitation.",
  access: "members.write",
  params: ById,
  body: EmptyBody,
  output: Invite,
  idempotent: true,
  failures: ["invite_not_found", "invite_accepted"],
  emits: ["workspace_invite.revoked"],
  handle: (ctx, { params }) => revokeInvite(ctx, params.id),
});
