// Request and response schemas of the person plane.
import { z } from "zod";
import { ROLES } from "../../domain/core/actor.ts";
import { text, Timestamp, Uuid } from "../schemas.ts";

const PASSWORD_CHARS = 256;
const PASSWORD_BYTES = 1_024;

const fitsBytes = (value: string): boolean => Buffer.byteLength(value) <= PASSWORD_BYTES;
const tooManyBytes = { error: `must have at most ${PASSWORD_BYTES} bytes` };

/** A password to be checked. The rules for new passwords do not apply: it may be older than they are. */
export const PresentedPassword = text(1, PASSWORD_CHARS).refine(fitsBytes, tooManyBytes);

/** A new password. The domain checks the blocklist and the minimum length, which is a setting. */
export const NewPassword = text(1, PASSWORD_CHARS).refine(fitsBytes, tooManyBytes).meta({
  description: "At least KEYRACK_PASSWORD_MIN characters (12 by default), and not a common password.",
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
const UserFields = z.strictObject(userFields);

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
