// Email verification.
import { z } from "zod";
import { consumeVerification, requestVerification } from "../../domain/auth/email-verifications.ts";
import { endpoint } from "../../http/endpoint.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import { EmptyBody } from "../schemas.ts";
import { OneTimeToken } from "./schemas.ts";

export const emailVerificationsCreate = endpoint("POST /v1/auth/email_verifications", {
  summary: "Send another verification link. Sends nothing if the address is already verified.",
  access: "auth.own",
  body: EmptyBody,
  output: z.strictObject({ object: z.literal("email_verification"), accepted: z.literal(true) }),
  status: 202,
  handle: (ctx) => requestVerification(ctx),
});

export const emailVerificationsConsume = endpoint("POST /v1/auth/email_verifications/consume", {
  summary: "Verify an email address with the token from the email.",
  access: "auth.open",
  perNetwork: { name: "verification", limit: 60, windowMs: MINUTE_MS },
  body: z.strictObject({ token: OneTimeToken }),
  output: z.strictObject({ object: z.literal("email_verification"), verified: z.literal(true) }),
  failures: ["invalid_token"],
  emits: ["user.email_verified"],
  handle: (ctx, { body }) => consumeVerification(ctx, body.token),
});
