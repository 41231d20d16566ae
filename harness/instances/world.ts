// The setup of campaigns over HTTP: a workspace with a project and a tenant, users with sessions, created by the API.
import { join } from "node:path";
import { readMailbox } from "./mailbox.ts";
import type { Call, Reply } from "../processes/send.ts";
import { until } from "../waiting.ts";

/** The master key of every fixture. */
export const FIXTURE_MASTER_KEY = "07".repeat(32);
export const PASSWORD = "correct horse battery staple";

export type World = { call: Call; key: string; workspace_id: string; project_id: string; tenant_id: string };
export type Person = { id: string; email: string; session: string; session_id: string };

/** The body of a successful response; throws otherwise, because the campaign cannot run. */
export async function must(reply: Promise<Reply>): Promise<Reply["body"]> {
  const { status, body, text } = await reply;
  if (status >= 300) throw new Error(`refused with ${status}: ${text}`);
  return body;
}

/** The same, but sends the request again while the service is unavailable, as clients do. */
export async function mustOnceAvailable(request: () => Promise<Reply>): Promise<Reply["body"]> {
  let reply = await request();
  await until(async () => reply.status !== 503 || (reply = await request()).status !== 503);
  return must(Promise.resolve(reply));
}

export async function makeWorld(call: Call, bootstrap: string, slug: string): Promise<World> {
  const made = await must(call(bootstrap, "POST /v1/workspaces", { name: "Proof", slug }));
  const key = made.secret_key.key as string;
  const project = await must(call(key, "POST /v1/projects", { name: "P", slug: "ppp" }));
  const tenant = await must(call(key, "POST /v1/tenants", { external_id: "t" }));
  return { call, key, workspace_id: made.workspace.id, project_id: project.id, tenant_id: tenant.id };
}

/** Waits for a message to an address with a token other than `before`. */
export async function mailedToken(dataDir: string, to: string, before?: string): Promise<string> {
  let token: string | null | undefined;
  await until(() => {
    token = readMailbox(join(dataDir, "mail")).findLast((mail) => mail.to === to)?.token;
    return Boolean(token) && token !== before;
  });
  return token as string;
}

/** Signs up, verifies and logs in. */
export async function makePerson(call: Call, dataDir: string, email: string): Promise<Person> {
  await must(call(null, "POST /v1/auth/users", { email, password: PASSWORD }));
  const token = await mailedToken(dataDir, email);
  await must(call(null, "POST /v1/auth/email_verifications/consume", { token }));
  return logIn(call, email);
}

export async function logIn(call: Call, email: string, more: object = {}): Promise<Person> {
  const body = await must(call(null, "POST /v1/auth/sessions", { email, password: PASSWORD, ...more }));
  return { id: body.user.id, email, session: body.token, session_id: body.id };
}
