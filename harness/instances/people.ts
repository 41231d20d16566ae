// Users for tests: accounts, sessions and mailboxes, with the real mail folder.
import { join } from "node:path";
import { expect } from "vitest";
import { readMailbox, type ReceivedMail } from "./mailbox.ts";
import { unknownCaller } from "../../src/domain/auth/password-queue.ts";
import { emailVerified, userCreated } from "../../src/domain/auth/user-events.ts";
import { newUser } from "../../src/domain/auth/users.ts";
import type { Role } from "../../src/domain/core/actor.ts";
import type { Ctx } from "../../src/domain/core/context.ts";
import { mutate } from "../../src/domain/core/mutate.ts";
import { normalizeEmail } from "../../src/kernel/emails.ts";
import { insertUser } from "../../src/store/queries/users.ts";
import type { TestInstance } from "./test-instance.ts";

export const PASSWORD = "correct horse battery staple";

export type Person = { id: string; email: string; password: string; session: string; session_id: string };

let made = 0;

export function freshEmail(name = "person"): string {
  return `${name}-${process.pid}-${++made}@example.com`;
}

/** Every message in the folder, oldest first, once the scheduler is idle. */
export async function receivedMail(instance: TestInstance, to?: string): Promise<ReceivedMail[]> {
  await instance.app.idle();
  const all = readMailbox(join(instance.dataDir, "mail"));
  return to === undefined ? all : all.filter((mail) => mail.to === to);
}

export async function lastMail(instance: TestInstance, to: string): Promise<ReceivedMail> {
  const mail = (await receivedMail(instance, to)).at(-1);
  if (!mail) throw new Error(`there is no mail for ${to}`);
  return mail;
}

/** Signs up and verifies, without logging in. */
export async function account(
  instance: TestInstance,
  email = freshEmail(),
  password = PASSWORD,
  verified = true,
): Promise<string> {
  const reply = await instance.call(null, "POST /v1/auth/users", { email, password });
  expect(reply.status, reply.text).toBe(202);
  if (verified) {
    const { token } = await lastMail(instance, email);
    const consumed = await instance.call(null, "POST /v1/auth/email_verifications/consume", { token });
    expect(consumed.status, consumed.text).toBe(200);
  }
  return email;
}

export async function logIn(
  instance: TestInstance,
  email: string,
  password = PASSWORD,
  more: object = {},
): Promise<Person> {
  const reply = await instance.call(null, "POST /v1/auth/sessions", { email, password, ...more });
  expect(reply.status, reply.text).toBe(201);
  return { id: reply.body.user.id, email, password, session: reply.body.token, session_id: reply.body.id };
}

/** A verified account, stored as signing up and following the mailed link would. */
async function storedAccount({ app: { services } }: TestInstance, email: string): Promise<string> {
  const password_phc = await services.passwords.hash(unknownCaller({}), PASSWORD);
  const row = newUser(services, { email, email_key: normalizeEmail(email), password_phc }, true);
  const ctx: Ctx = { services, actor: { kind: "user", user_id: row.id } };
  await mutate(ctx, { workspace_id: null }, async (tx) => {
    await insertUser.run(tx, row);
    return { value: undefined, events: [userCreated(row.id), emailVerified(row.id)] };
  });
  return email;
}

export async function person(
  instance: TestInstance,
  { verified = true, email = freshEmail() }: { verified?: boolean; email?: string } = {},
): Promise<Person> {
  return logIn(instance, await (verified ? storedAccount(instance, email) : account(instance, email, PASSWORD, false)));
}

export type Team = { id: string; slug: string; owner: Person; key: string };

/** A workspace created by a user, who owns it. */
export async function team(instance: TestInstance, creator?: Person): Promise<Team> {
  const owner = creator ?? (await person(instance));
  const slug = `team-${process.pid}-${++made}`;
  const reply = await instance.call(owner.session, "POST /v1/workspaces", { name: "Team", slug });
  expect(reply.status, reply.text).toBe(201);
  return { id: reply.body.workspace.id, slug, owner, key: reply.body.secret_key.key };
}

/** A verified user who has accepted an invitation. */
export async function memberOf(instance: TestInstance, team: Team, role: Role): Promise<Person> {
  const guest = await person(instance);
  const invite = await instance.call(team.owner.session, "POST /v1/invites", { email: guest.email, role });
  expect(invite.status, invite.text).toBe(201);
  const accepted = await instance.call(guest.session, "POST /v1/auth/invites/accept", { token: invite.body.token });
  expect(accepted.status, accepted.text).toBe(200);
  return guest;
}

type AuditRow = {
  action: string;
  actor_type: string;
  actor_id: string | null;
  target_id: string;
  payload: unknown;
};

const NIL = "00000000-0000-0000-0000-000000000000";

/** The rows of a chain, oldest first; of the deployment's chain by default. */
export async function auditRows(instance: TestInstance, workspace_id = NIL): Promise<AuditRow[]> {
  const rows = await instance.sql("select * from audit_log where workspace_id = $1 order by seq", [workspace_id]);
  return rows.map((row) => ({ ...row, payload: JSON.parse(String(row.payload)) }) as unknown as AuditRow);
}

/** The deployment's actions about one target since a row count. */
export async function deploymentActions(instance: TestInstance, since = 0): Promise<string[]> {
  return (await auditRows(instance)).slice(since).map(({ action }) => action);
}
