// Every kind of secret is created through the API; none appears in the database files, their -wal or the log.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { runBackends } from "../../harness/databases/backends.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";
import { everythingStored } from "../../harness/instances/stored-text.ts";

const ORIGIN = "https://app.example.com";
const SEALED = "a-body-that-is-nobody-elses-business";

for (const backend of runBackends) {
  it(`no credential of the vendor, machine or embed plane is stored or logged on ${backend}`, async () => {
    await using instance = await testInstance(backend);
    const workspace = await instance.workspace();
    const { project_id, tenant_id } = workspace;
    const secrets: Record<string, string> = { ...workspace.keys, bootstrap: instance.app.bootstrap.token ?? "" };
    const retry = { headers: { "idempotency-key": "an-idempotency-key-of-ours" } };
    const want = { project_id, tenant_id, env: "live" };
    const minted = await workspace.call("sk_owner", "POST /v1/keys", want, retry);
    secrets["an API key"] = minted.body.key;
    secrets["an Idempotency-Key"] = retry.headers["idempotency-key"];
    const rotated = await workspace.call("sk_owner", `POST /v1/keys/${minted.body.id}/rotate`, {});
    secrets["a rotated API key"] = rotated.body.key;
    const own = await workspace.call("sk_owner", `POST /v1/secret_keys/${workspace.keyIds.sk_test}/rotate`, {});
    secrets["a rotated secret key"] = own.body.key;
    await workspace.call("sk_owner", "PATCH /v1/workspace", { embed_origins: [ORIGIN] });
    const scopes = ["keys:read", "keys:write"];
    const embed = await workspace.call("sk_owner", "POST /v1/embed_tokens", { ...want, scopes });
    secrets["an embed token"] = embed.body.token;
    const page = { headers: { origin: ORIGIN } };
    const browser = await instance.call(embed.body.token, "POST /v1/embed/keys", { name: "browser" }, page);
    secrets["a key made in a browser"] = browser.body.key;
    const scope = { scope_hash: "ab".repeat(32), env: "live" };
    const claim = await workspace.call("sk_owner", "POST /v1/idempotency/claim", {
      ...scope,
      fingerprint: "cd".repeat(32),
    });
    const { lock_token } = claim.body;
    secrets["a lock token"] = lock_token;
    secrets["a stored answer"] = SEALED;
    const answer = { status: 200, headers: { "x-answer": SEALED }, body: Buffer.from(SEALED).toString("base64") };
    await workspace.call("sk_owner", "POST /v1/idempotency/complete", { ...scope, lock_token, ...answer });
    secrets["a stored answer in base64"] = answer.body;
    const master = readFileSync(join(instance.dataDir, "master.key"));
    secrets["the master key as it lies in its file"] = master.toString("latin1").trim();
    for (const [name, secret] of Object.entries(secrets)) expect(secret?.length, name).toBeGreaterThan(20);

    const [stored, logged] = [await everythingStored(instance), instance.logs.join("")];
    expect(stored.includes(minted.body.display_prefix)).toBe(true); // the search works: it finds this
    for (const [name, secret] of Object.entries(secrets)) {
      expect(stored.includes(secret), `${name} in the database`).toBe(false);
      expect(logged.includes(secret), `${name} in the log`).toBe(false);
    }
  });
}
