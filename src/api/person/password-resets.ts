// Password resets.
import { z } from "zod";
import { consumeReset, requestReset } from "../../domain/auth/password-resets.ts";
import { endpoint } from "../../http/endpoint.ts";
import { Email } from "../schemas.ts";
import { NewPassword, OneTimeToken } from "./schemas.ts";
import { HOUR_MS, MINUTE_MS } from "../../kernel/durations.ts";

export const passwordResetsCreate = endpoint("POST /v1/auth/password_resets", {
  summary: "Send a password reset link. The response is the same whether or not the address has an account.",
  access: "auth.open",
  perNetwork: { name: "reset", limit: 60, windowMs: HOUR_MS },
  body: z.strictObject({ email: Email }),
  output: z.strictObject({ object: z.literal("password_reset"), accepted: z.literal(true) }),
  status: 202,
  handle: (ctx, { body }) => requestReset(ctx, body.email),
});

export const passwordResetsConsume = endpoint("POST /v1/auth/password_resets/consume", {
  summary: "Set a new password with the token from the email. Revokes all sessions and verifies the address.",
  access: "auth.open",
  perNetwork: { name: "reset_consume", limit: 60, windowMs: MINUTE_MS },
  body: z.strictObject({ token: OneTimeToken, password: NewPassword }),
  output: z.strictObject({ object: z.literal("password_reset"), consumed: z.literal(true) }),
  failures: ["invalid_token", "overloaded"],
  emits: ["user.password_reset", "user.email_verified"],
  stores: false, // ends the old password and every session
  handle: (ctx, { body }) => consumeReset(ctx, body),
});
