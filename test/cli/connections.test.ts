// What `keyrack doctor` and `keyrack init` find out about the Redis of the settings.
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:tls";
import type { AddressInfo } from "node:net";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasRedis, startRedis, type OwnRedis } from "../../harness/databases/redis.ts";
import { makeCertificate } from "../../harness/processes/certificate.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { tryConnections } from "../../src/cli/connections.ts";
import { loadSettings } from "../../src/config/load.ts";

async function tryRedis(redis_url: string) {
  const [found] = await tryConnections(loadSettings({ env: {}, flags: { redis_url } }).settings);
  return found;
}

describe.runIf(hasRedis())("the connection to Redis", () => {
  let own: OwnRedis;
  beforeAll(async () => {
    own = (await startRedis(["--requirepass", "right"]))!;
    const admin = new Redis(own.url.replace("//", "//:right@"));
    await admin.call("ACL", "SETUSER", "limited", "on", ">secret", "~other:*", "+@all");
    const needed = ["~keyrack:*", "+@read", "+@write", "+eval", "+evalsha", "+time"]; // docs/scale.md
    await admin.call("ACL", "SETUSER", "documented", "on", ">secret", ...needed);
    admin.disconnect();
  });
  afterAll(() => own?.stop());
  const at = (user: string, path = "") => own.url.replace("//", `//${user}`) + path;

  it("works where scripts run", async () => {
    expect((await tryRedis(at(":right@")))?.problem).toBeNull();
    expect((await tryRedis(at(":right@", "/3")))?.problem).toBeNull();
    expect((await tryRedis(at("documented:secret@", "/0")))?.problem).toBeNull();
  });

  for (const [what, user, path, problem, fix] of [
    ["no password", "", "", "NOAUTH Authentication required", "Check user and password"],
    ["a wrong password", ":wrong@", "", "WRONGPASS invalid username-password pair or user is disabled", "Check user"],
    ["a user without rights", "limited:secret@", "", "NOPERM", "what that user may do"],
    ["a database that does not exist", ":right@", "/99", "ERR DB index is out of range", "Check its address"],
  ] as const) {
    it(`reports ${what} and what to do about it`, async () => {
      const found = await tryRedis(at(user, path));
      expect(found?.problem).toMatch(new RegExp(`^${problem}`));
      expect(found?.problem).not.toMatch(/\.$/);
      expect(found?.fix).toContain(fix);
    });
  }
});

it("reports a certificate of Redis that no known CA has issued, and how to name one", async () => {
  using temp = tempDir();
  const { cert, key } = makeCertificate(temp.dir, "redis", "localhost");
  const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) });
  server.on("tlsClientError", () => {}).listen(0, "127.0.0.1");
  await once(server, "listening");
  const found = await tryRedis(`rediss://127.0.0.1:${(server.address() as AddressInfo).port}`);
  expect(found?.problem).toBe("DEPTH_ZERO_SELF_SIGNED_CERT");
  expect(found?.fix).toContain("NODE_EXTRA_CA_CERTS");
  server.close();
});
