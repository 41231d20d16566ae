// Run from an installed package in an empty folder, by `node --test`.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { createKeyrack, KeyrackError } from "@keyrack/sdk";
import { protect } from "@keyrack/sdk/fetch";

const { PLANE_URL, SECRET_KEY, PROJECT_ID, KEY } = process.env;
const options = { url: PLANE_URL, secretKey: SECRET_KEY, projectId: PROJECT_ID };
const request = (headers) => new Request("http://app/x", { headers });

void test("verifies and protects", async () => {
  const keyrack = createKeyrack(options);
  await keyrack.ready();
  assert.equal(keyrack.verify(KEY, { scopes: ["read"] }).ok, true);
  const serve = protect(keyrack, { scopes: ["read"] }, (_request, context) => Response.json(context));
  assert.equal((await (await serve(request({ "x-api-key": KEY }))).json()).verified, true);
  assert.equal((await serve(request({}))).status, 401);
  await keyrack.close();
});

void test("loads every entry point, and an ESM instance works with a CommonJS adapter", async () => {
  for (const name of ["express", "fastify", "hono", "h3", "node", "fetch"]) {
    const module = await import(`@keyrack/sdk/${name}`);
    assert.deepEqual(Object.keys(module).toSorted(), ["idempotent", "protect"]);
  }
  const keyrack = createKeyrack(options);
  await keyrack.ready();
  const other = createRequire(import.meta.url)("@keyrack/sdk/fetch");
  const serve = other.protect(keyrack, {}, (_request, context) => Response.json(context));
  assert.equal((await serve(request({ "x-api-key": KEY }))).status, 200);
  await keyrack.close();
  assert.equal(typeof KeyrackError, "function");
});
