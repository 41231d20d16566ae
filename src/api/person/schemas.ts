// What the person plane asks for and answers.
import { z } from "zod";
import { ROLES } from "../../domain/core/actor.ts";
import { text, Timestamp, Uuid } from "../schemas.ts";

const PASSWORD_CHARS = 256;
const PASSWORD_BYTES = 1_024;

const fitsBytes = (value: string): boolean => Buffer.byteLength(value) <= PASSWORD_BYTES;
const tooManyBytes = { error: `must have at most ${PASSWORD_BYTES} bytes` };

/** A password that is only presented: never held against the policy (decision 28). */
export const PresentedPassword = text(1, PASSWORD_CHARS).refine(fitsBytes, tooManyBytes);

/** A password being chosen. The minimum is a setting, so the domain checks it, together with the blocklist. */
export const NewPassword = text(1, PASSWORD_CHARS).refine(fitsBytes, tooManyBytes).meta({
  description: "At least KEYRACK_PASSWORD_MIN characters (12 unless set otherwise), and not a common password.",
});

export const OneTimeToken = text(1, 500);
export const Role = z.enum(ROLES);

export const Membership = z.strictObject({ workspace_id: Uuid, role: Role, name: z.string(), slug: z.string() });

const userFields = {
  id: Uuid,
  email: z.string(),
  email_verified: z.boolean(),
  name: z.string().nullable(),
  created_at: Timestamp,
  last_login_at: Timestamp.nullable(),
};
export const User = z.strictObject({ object: z.literal("user"), ...userFields });
export const UserFields = z.strictObject(userFields);

const sessionFields = {
  id: Uuid,
  display_prefix: z.string(),
  active_workspace_id: Uuid.nullable(),
  created_at: Timestamp,
  last_seen_at: Timestamp,
  expires_at: Timestamp,
  absolute_expires_at: Timestamp,
};
export const Session = z.strictObject({
  object: z.literal("session"),
  token: z.string(),
  ...sessionFields,
  user: UserFields,
  memberships: z.array(Membership),
});
export const SessionSummary = z.strictObject({ ...sessionFields, current: z.boolean() });
