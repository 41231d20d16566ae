// Backups leave the host, so they must not contain secrets. The test plants every kind of secret through the API,
// creates a backup, and searches every byte of it.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createBackup } from "../../src/backup/create.ts";
import { listMail, showMail } from "../../src/domain/mail/outbox.ts";
import { displayPrefix } from "../../src/kernel/credentials.ts";
import { runBackends, type Backend } from "../../harness/databases/backends.ts";
import { account, freshEmail, logIn } from "../../harness/instances/people.ts";
import { testInstance, type TestInstance } from "../../harness/instances/test-instance.ts";

const PASSWORD = "planted-password-that-must-not-travel";
const RESPONSE = "a-response-that-must-not-travel";

/** The tokens in mailed links. Nothing can be delivered, so every message is still in the outbox. */
async function mailedTokens({ app }: TestInstance): Promise<string[]> {
  const { data } = await listMail(app.services, {});
  const mails = await Promise.all(data.map(({ id }) => showMail(app.services, id, true)));
  return mails.flatMap(({ text = "" }) => /token=(\S+)/.exec(text)?.[1] ?? []);
}

async function plantPeople(instance: TestInstance): Promise<Record<string, string>> {
  const email = await account(instance, freshEmail(), PASSWORD, false);
  const { session } = await logIn(instance, email, PASSWORD);
  await instance.call(null, "POST /v1/auth/password_resets", { email });
  const made = await instance.call(session, "POST /v1/workspaces", { name: "W", slug: `w-${process.pid}` });
  const invite = await instance.call(session, "POST /v1/invites", { email: freshEmail(), role: "owner" });
  const [invited = "", verification = "", reset = ""] = (await mailedTokens(instance)).toSorted();
  expect([verification, reset].map((token) => token.slice(0, 5))).toEqual(["krev_", "krpr_"]);
  return {
    "a password": PASSWORD,
    "a session": session,
    "a person's secret key": made.body.secret_key.key,
    "an invite token": invite.body.token.split(".")[1],
    "a mailed invite token": invited.split(".")[1] ?? "",
    "a mailed verification token": verification,
    "a mailed reset token": reset,
  };
}

async function plantKeys(instance: TestInstance): Promise<Record<string, string>> {
  const workspace = await instance.workspace();
  const key = await workspace.mint();
  const rotated = await workspace.call("sk_owner", `POST /v1/keys/${key.id}/rotate`, {});
  const own = await workspace.call("sk_owner", `POST /v1/secret_keys/${workspace.keyIds.sk_test}/rotate`, {});
  const want = { project_id: workspace.project_id, tenant_id: workspace.tenant_id, env: "live" };
  const retry = { headers: { "idempotency-key": "an-idempotency-key-of-ours" } };
  const kept = await workspace.call("sk_owner", "POST /v1/keys", want, retry);
  const scope = { scope_hash: "ab".repeat(32), env: "live" };
  const claim = await workspace.call("sk_owner", "POST /v1/idempotency/claim", {
    ...scope,
    fingerprint: "cd".repeat(32),
  });
  const { lock_token } = claim.body;
  const body = Buffer.from(RESPONSE).toString("base64");
  const done = { ...scope, lock_token, status: 200, headers: { "x-answer": RESPONSE }, body };
  expect((await workspace.call("sk_owner", "POST /v1/idempotency/complete", done)).status).toBe(200);
  return {
    ...workspace.keys,
    "an API key": key.key,
    "a rotated API key": rotated.body.key,
    "a rotated secret key": own.body.key,
    "a key in an idempotency replay": kept.body.key,
    "a lock token": lock_token,
    "a stored response": RESPONSE,
    "a stored response in base64": body,
  };
}

function masterKey(instance: TestInstance): Record<string, string> {
  const text = readFileSync(join(instance.dataDir, "master.key"), "utf8").trim();
  const bytes = Buffer.from(text, "hex");
  expect(bytes).toHaveLength(32);
  return {
    "the master key as in its file": text,
    "the master key's bytes": bytes.toString("latin1"),
    "the master key in base64": bytes.toString("base64"),
  };
}

/** Every file of the backup. A dump also in plain text: its data is compressed, and bytes in it are hex. */
function everythingIn(folder: string, backend: Backend): string {
  const texts = readdirSync(folder).map((name) => readFileSync(join(folder, name), "latin1"));
  if (backend === "postgres") {
    const options = { encoding: "latin1", maxBuffer: 2 ** 30 } as const;
    const dump = execFileSync("pg_restore", ["--file=-", join(folder, "keyrack.dump")], options);
    const hex = [...dump.matchAll(/\\x([0-9a-f]+)/g)].map(([, bytes = ""]) => Buffer.from(bytes, "hex"));
    texts.push(dump, ...hex.map((bytes) => bytes.toString("latin1")));
  }
  return texts.join("\n");
}

for (const backend of runBackends) {
  it(`contains no secret and not the master key: a backup on ${backend}`, async () => {
    await using instance = await testInstance(backend, { flags: { mail_url: "smtp://127.0.0.1:1" } });
    const secrets: Record<string, string> = {
      "the bootstrap token": instance.app.bootstrap.token ?? "",
      ...(await plantPeople(instance)),
      ...(await plantKeys(instance)),
      ...masterKey(instance),
    };
    const { folder } = await createBackup(instance.app.services);
    const backup = everythingIn(folder, backend);
    for (const name of ["an API key", "a person's secret key", "a rotated secret key"])
      expect(backup.includes(displayPrefix(secrets[name] ?? "")), name).toBe(true); // proves that the search works
    for (const [name, secret] of Object.entries(secrets)) {
      expect(secret.length, name).toBeGreaterThan(20);
      expect(backup.includes(secret), `${name} in the backup`).toBe(false);
    }
  });
}
