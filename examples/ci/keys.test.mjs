// Your tests with a real, temporary Keyrack: keyrack ephemeral --seed -- node --test
import assert from "node:assert/strict";
import { test } from "node:test";

const { KEYRACK_URL, KEYRACK_SECRET_KEY, KEYRACK_TEST_SECRET_KEY, KEYRACK_PROJECT_ID, KEYRACK_TENANT_ID } = process.env;

async function call(method, path, body, bearer = KEYRACK_SECRET_KEY) {
  const response = await fetch(KEYRACK_URL + path, {
    method,
    headers: { authorization: `Bearer ${bearer}`, "content-type": "application/json" },
    ...(body && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.json() };
}

const want = { project_id: KEYRACK_PROJECT_ID, tenant_id: KEYRACK_TENANT_ID };

await test("a key is shown once, and is gone once it is revoked", async () => {
  const minted = await call("POST", "/v1/keys", { ...want, env: "live" });
  assert.equal(minted.status, 201);
  assert.match(minted.body.key, /^kr_live_/);
  const shown = await call("GET", `/v1/keys/${minted.body.id}`);
  assert.equal(shown.body.key, undefined);
  const revoked = await call("POST", `/v1/keys/${minted.body.id}/revoke?wait=true`, {});
  assert.equal(revoked.body.propagation.complete, true);
});

await test("the test secret key cannot touch live", async () => {
  const refused = await call("POST", "/v1/keys", { ...want, env: "live" }, KEYRACK_TEST_SECRET_KEY);
  assert.equal(refused.status, 403);
});
