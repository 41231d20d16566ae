// One credential of each kind, and ended ones, for suites that iterate over the authorisation matrix.
import type { CredentialKind } from "../../src/http/access.ts";
import { formatCredential } from "../../src/kernel/credentials.ts";
import { logIn, PASSWORD, person, type Person } from "./people.ts";
import type { TestInstance, Workspace } from "./test-instance.ts";
import { mistyped } from "../mistyped.ts";

type Credential = { bearer: string | null; headers?: Record<string, string> };

export type Principals = {
  workspace: Workspace;
  credentials: Partial<Record<CredentialKind, Credential>>;
  /** Logs the users in again and mints another API key, after a call that ended the last ones. */
  renew(): Promise<void>;
  /** Each of these must get 401. */
  ended: Record<string, string>;
};

export async function principals(instance: TestInstance): Promise<Principals> {
  const workspace = await instance.workspace();
  const { sk_owner, sk_admin, sk_test } = workspace.keys;
  const people = {
    ses_owner: await join(instance, workspace, "owner"),
    ses_admin: await join(instance, workspace, "admin"),
  };
  const all = { ...people, ses_member: await join(instance, workspace, "member") };
  const credentials: Principals["credentials"] = {
    sk_owner: { bearer: sk_owner },
    sk_admin: { bearer: sk_admin },
    sk_test: { bearer: sk_test },
    bootstrap: { bearer: instance.app.bootstrap.token },
    none: { bearer: null },
  };
  const ended = await endedCredentials(instance, workspace);
  credentials.embed = await embedCredential(workspace);
  const { project_id } = workspace;
  await workspace.call("sk_owner", `PATCH /v1/projects/${project_id}`, { key_policy: { holder_rotate: true } });
  const renew = async (): Promise<void> => {
    credentials.api_key = { bearer: (await workspace.mint()).key };
    for (const [kind, { email }] of Object.entries(all) as [CredentialKind, Person][]) {
      credentials[kind] = { bearer: (await logIn(instance, email, PASSWORD, { workspace_id: workspace.id })).session };
    }
  };
  await renew();
  return { workspace, credentials, renew, ended };
}

async function join(instance: TestInstance, workspace: Workspace, role: string): Promise<Person> {
  const guest = await person(instance);
  const { body } = await workspace.call("sk_owner", "POST /v1/invites", { email: guest.email, role });
  await instance.call(guest.session, "POST /v1/auth/invites/accept", { token: body.token });
  return guest;
}

/** A token with every scope, presented from an allowed origin. */
async function embedCredential(w: Workspace, tenant_id = w.tenant_id): Promise<Credential> {
  const origin = "https://app.example.com";
  await w.call("sk_owner", "PATCH /v1/workspace", { embed_origins: [origin] });
  const { project_id } = w;
  const scopes = ["keys:read", "keys:write"];
  const minted = await w.call("sk_owner", "POST /v1/embed_tokens", { project_id, tenant_id, env: "live", scopes });
  return { bearer: minted.body.token, headers: { origin } };
}

async function endedCredentials(instance: TestInstance, w: Workspace): Promise<Record<string, string>> {
  const mint = async (more: object = {}) =>
    (await w.call("sk_owner", "POST /v1/secret_keys", { env: "live", ...more })).body;
  const revoked = await mint();
  await w.call("sk_owner", `POST /v1/secret_keys/${revoked.id}/revoke`);
  const lapsed = await mint();
  const now = instance.clock.now();
  await instance.sql(
    `update secret_keys set quarantined_at = ${now - 2}, expires_at = ${now - 1} where id = '${lapsed.id}'`,
  );
  const expired = await mint({ expires_at: new Date(now + 1000).toISOString() });
  instance.clock.advance(1000);
  const { key: customers } = await w.mint();
  const [loggedOut, idle] = [await person(instance), await person(instance)];
  await instance.call(loggedOut.session, "DELETE /v1/auth/sessions/current");
  await instance.sql(`update sessions set expires_at = ${now} where id = '${idle.session_id}'`);
  const tenant = (await w.call("sk_owner", "POST /v1/tenants", { external_id: "former" })).body;
  const embed = (await embedCredential(w, tenant.id)).bearer ?? "";
  await w.call("sk_owner", `POST /v1/tenants/${tenant.id}/embed_tokens/revoke`);
  const body = new Uint8Array(24).fill(7);
  return {
    "a revoked embed token": embed,
    "a revoked secret key": revoked.key,
    "an expired secret key": expired.key,
    "a quarantined secret key past its hour": lapsed.key,
    "an unknown secret key": formatCredential("secret_key", "live", body),
    "a secret key with a wrong checksum": mistyped(revoked.key),
    "a secret key cut short": revoked.key.slice(0, -1),
    "a customer's key": customers,
    "a session that was logged out": loggedOut.session,
    "a session that was idle too long": idle.session,
    "an unknown session": formatCredential("session", null, body),
    "an unknown bootstrap token": formatCredential("bootstrap", null, body),
    "a verification token": formatCredential("email_verification", null, body),
    "a word": "hello",
  };
}
