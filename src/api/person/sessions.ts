// Sessions: log in, log out, switch the active workspace.
import { z } from "zod";
import { listSessions, logIn, revokeSession, switchWorkspace } from "../../domain/auth/sessions.ts";
import { endpoint } from "../../http/endpoint.ts";
import { ById, Email, listOf, Uuid } from "../schemas.ts";
import { PresentedPassword, Session, SessionSummary } from "./schemas.ts";

const Ended = z.strictObject({ object: z.literal("session"), id: Uuid, revoked: z.literal(true) });

export const sessionsCreate = endpoint("POST /v1/auth/sessions", {
  summary: "Log in. The token is shown only in this response.",
  access: "auth.open",
  body: z.strictObject({ email: Email, password: PresentedPassword, workspace_id: Uuid.optional() }),
  output: Session,
  status: 201,
  failures: ["invalid_credentials", "not_a_member", "rate_limited", "login_disabled", "overloaded"],
  emits: ["session.created", "session.revoked"],
  handle: (ctx, { body }) => logIn(ctx, body),
});

export const sessionsList = endpoint("GET /v1/auth/sessions", {
  summary: "List your active sessions, newest first.",
  access: "auth.own",
  output: listOf(SessionSummary),
  handle: (ctx) => listSessions(ctx),
});

export const sessionsEndCurrent = endpoint("DELETE /v1/auth/sessions/current", {
  summary: "Log out.",
  access: "auth.own",
  output: Ended,
  emits: ["session.revoked"],
  handle: (ctx) => revokeSession(ctx, ctx.actor.id),
});

export const sessionsEnd = endpoint("DELETE /v1/auth/sessions/{id}", {
  summary: "Revoke one of your sessions.",
  access: "auth.own",
  params: ById,
  output: Ended,
  failures: ["session_not_found"],
  emits: ["session.revoked"],
  handle: (ctx, { params }) => revokeSession(ctx, params.id),
});

export const sessionsSwitch = endpoint("POST /v1/auth/sessions/current/workspace", {
  summary: "Switch the session to another of your workspaces.",
  access: "auth.own",
  body: z.strictObject({ workspace_id: Uuid.describe("workspace to switch to") }),
  output: z.strictObject({ object: z.literal("session"), id: Uuid, active_workspace_id: Uuid }),
  failures: ["workspace_not_found"],
  handle: (ctx, { body }) => switchWorkspace(ctx, body.workspace_id),
});
