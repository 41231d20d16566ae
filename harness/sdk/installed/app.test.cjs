// Run from an installed package in an empty folder, by `node --test`.
const assert = require("node:assert/strict");
const { createServer } = require("node:http");
const { test } = require("node:test");
const { createKeyrack } = require("@keyrack/sdk");
const { protect } = require("@keyrack/sdk/node");

const { PLANE_URL, SECRET_KEY, PROJECT_ID, KEY } = process.env;

void test("verifies and protects", async () => {
  const keyrack = createKeyrack({ url: PLANE_URL, secretKey: SECRET_KEY, projectId: PROJECT_ID });
  await keyrack.ready();
  const server = createServer(protect(keyrack, {}, (req, res) => res.end(req.keyrack.tenantId)));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const response = await fetch(`http://127.0.0.1:${server.address().port}/`, {
    headers: { authorization: `Bearer ${KEY}` },
  });
  assert.equal(response.status, 200);
  assert.match(await response.text(), /^[0-9a-f-]{36}$/);
  server.close();
  server.closeAllConnections();
  await keyrack.close();
});

void test("loads every entry point", () => {
  for (const name of ["express", "fastify", "hono", "h3", "node", "fetch"]) {
    assert.deepEqual(Object.keys(require(`@keyrack/sdk/${name}`)).toSorted(), ["idempotent", "protect"]);
  }
});
