// The requests of the fault campaigns: one for every route that changes anything, and each succeeds without faults.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { calls, scannerFlags } from "../../prove/calls.ts";
import { startLocalInstance } from "../../harness/instances/local-instance.ts";
import { makePerson, makeWorld } from "../../harness/instances/world.ts";
import { endpoints } from "../../src/api/index.ts";

const LEFT_OUT = [
  "POST /v1/setup", // succeeds once, on a server without an owner, so a campaign cannot repeat it
  "POST /v1/keys/lookup", // changes nothing; a POST keeps the key out of addresses and logs
];

it("every route that changes anything has a request", () => {
  const changing = endpoints
    .map(({ name }) => name)
    .filter((name) => !name.startsWith("GET ") && !LEFT_OUT.includes(name));
  expect(Object.keys(calls).toSorted()).toEqual(changing.toSorted());
});

it("each request gets the status of its declaration", async () => {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
  const { app, call } = await startLocalInstance({
    target: { kind: "sqlite", file: join(dir, "keyrack.db") },
    dir,
    flags: scannerFlags(dir),
  });
  const bootstrap = app.bootstrap.token as string;
  const world = await makeWorld(call, bootstrap, "calls");
  const owner = await makePerson(call, dir, "owner@example.com");
  const joined = await call(world.key, "POST /v1/invites", { email: owner.email, role: "owner" });
  await call(owner.session, "POST /v1/auth/invites/accept", { token: joined.body.token });
  let names = 0;
  const scene = { world, dataDir: dir, bootstrap, owner, fresh: () => `n-${names++}` };
  for (const [name, prepare] of Object.entries(calls)) {
    const { bearer, route, body, options } = await prepare(scene);
    const { status, text } = await call(bearer, route, body, options);
    expect(status, `${name}: ${text}`).toBe(endpoints.find((endpoint) => endpoint.name === name)?.status);
  }
  await app.stop();
  rmSync(dir, { recursive: true, force: true });
});
