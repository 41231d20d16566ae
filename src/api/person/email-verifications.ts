// Proving one's address.
import { z } from "zod";
import { consumeVerification, requestVerification } from "../../domain/auth/email-verifications.ts";
import { endpoint } from "../../http/endpoint.ts";
import { Nothing } from "../schemas.ts";
import { OneTimeToken } from "./schemas.ts";

export const emailVerificationsCreate = endpoint("POST /v1/auth/email_verifications", {
  summary: "Ask for another verification link. Sends nothing when the address is verified.",
  access: "auth.own",
  body: Nothing,
  output: z.strictObject({ object: z.literal("email_verification"), accepted: z.literal(true) }),
  status: 202,
  handle: (ctx) => requestVerification(ctx),
});

export const emailVerificationsConsume = endpoint("POST /v1/auth/email_verifications/consume", {
  summary: "Verify an address with the token from its mailbox.",
  access: "auth.open",
  body: z.strictObject({ token: OneTimeToken }),
  output: z.strictObject({ object: z.literal("email_verification"), verified: z.literal(true) }),
  failures: ["invalid_token"],
  emits: ["user.email_verified"],
  handle: (ctx, { body }) => consumeVerification(ctx, body.token),
});
