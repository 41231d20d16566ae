// What a signed-in person learns about the server.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { person, team } from "../../../harness/instances/people.ts";
import { expectRefusal, sharedInstance } from "../../../harness/instances/test-instance.ts";
import { VERSION } from "../../../src/platform/version.ts";

for (const back of backends) {
  describe(`GET /v1/instance on ${back}`, () => {
    const r = sharedInstance(back, { flags: { region: "eu-1" } });

    it("names version and components, without an active workspace", async () => {
      const { session } = await person(r);
      const { status, body, text } = await r.call(session, "GET /v1/instance");
      expect(status).toBe(200);
      expect(body).toEqual({
        object: "instance",
        version: VERSION,
        build: expect.stringMatching(/^([0-9a-f]{12}|none)$/),
        region: "eu-1",
        public_url: r.url,
        database: back,
        counters: "memory",
        mail: "file",
        server_time: new Date(r.clock.now()).toISOString(),
      });
      expect(text).not.toContain(r.dataDir);
    });

    it("is for sessions only", async () => {
      const { key } = await team(r);
      expectRefusal(await r.call(key, "GET /v1/instance"), 403, "forbidden");
      expectRefusal(await r.call(null, "GET /v1/instance"), 401, "unauthenticated");
    });
  });
}
