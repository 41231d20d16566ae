// Accounts: sign-up, and the signed-in user's own account.
import { z } from "zod";
import { changePassword, renameMe, showMe, signUp } from "../../domain/auth/users.ts";
import { endpoint } from "../../http/endpoint.ts";
import { Email, Name, Uuid } from "../schemas.ts";
import { Membership, NewPassword, OneTimeToken, PresentedPassword, User } from "./schemas.ts";
import { HOUR_MS } from "../../kernel/durations.ts";

export const usersCreate = endpoint("POST /v1/auth/users", {
  summary: "Sign up. The response is the same whether or not the address has an account; an email is sent either way.",
  access: "auth.open",
  perNetwork: { name: "signup", limit: 60, windowMs: HOUR_MS },
  body: z.strictObject({
    email: Email,
    password: NewPassword,
    name: Name.optional(),
    invite_token: OneTimeToken.optional().describe(
      "An invitation of this address; required if sign-up is by invitation.",
    ),
  }),
  output: z.strictObject({ object: z.literal("signup"), email: z.string(), accepted: z.literal(true) }),
  status: 202,
  failures: ["overloaded", "sign_up_closed", "sign_up_by_invitation", "invalid_token"],
  emits: ["user.created", "user.email_verified"],
  handle: (ctx, { body }) => signUp(ctx, body),
});

export const meShow = endpoint("GET /v1/auth/me", {
  summary: "Show the signed-in user and their workspaces.",
  access: "auth.own",
  output: z.strictObject({
    object: z.literal("me"),
    user: z.strictObject({ id: Uuid, email: z.string(), email_verified: z.boolean() }),
    active_workspace_id: Uuid.nullable(),
    memberships: z.array(Membership),
  }),
  handle: (ctx) => showMe(ctx),
});

export const meUpdate = endpoint("PATCH /v1/auth/me", {
  summary: "Change your name.",
  access: "auth.own",
  body: z.strictObject({ name: Name.nullable() }),
  output: User,
  failures: ["rate_limited"],
  emits: ["user.updated"],
  handle: (ctx, { body }) => renameMe(ctx, body.name),
});

export const mePasswordChange = endpoint("POST /v1/auth/me/password", {
  summary: "Change your password. Revokes all your other sessions.",
  access: "auth.own",
  body: z.strictObject({ current_password: PresentedPassword, password: NewPassword }),
  output: z.strictObject({ object: z.literal("password"), changed: z.literal(true) }),
  failures: ["wrong_current_password", "rate_limited", "overloaded"],
  emits: ["user.password_changed"],
  handle: (ctx, { body }) => changePassword(ctx, body),
});
