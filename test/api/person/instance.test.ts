// What a signed-in person learns about the server.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { person, team } from "../../../harness/instances/people.ts";
import { expectRefusal, sharedInstance } from "../../../harness/instances/test-instance.ts";
import { VERSION } from "../../../src/platform/version.ts";

for (const backend of runBackends) {
  describe(`GET /v1/instance on ${backend}`, () => {
    const instance = sharedInstance(backend, { flags: { region: "eu-1" } });

    it("names version and components, without an active workspace", async () => {
      const { session } = await person(instance);
      const { status, body, text } = await instance.call(session, "GET /v1/instance");
      expect(status).toBe(200);
      expect(body).toEqual({
        object: "instance",
        version: VERSION,
        build: expect.stringMatching(/^([0-9a-f]{12}|none)$/),
        region: "eu-1",
        public_url: instance.url,
        database: backend,
        counters: "memory",
        mail: "file",
        server_time: new Date(instance.clock.now()).toISOString(),
      });
      expect(text).not.toContain(instance.dataDir);
    });

    it("is for sessions only", async () => {
      const { key } = await team(instance);
      expectRefusal(await instance.call(key, "GET /v1/instance"), 403, "forbidden");
      expectRefusal(await instance.call(null, "GET /v1/instance"), 401, "unauthenticated");
    });
  });
}
