// The address that a key's list of networks is judged by on the holder plane, behind proxies.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance } from "../../../harness/instances/test-instance.ts";

for (const backend of runBackends) {
  describe(`a key that is confined to networks, behind a trusted proxy on ${backend}`, () => {
    const instance = sharedInstance(backend, { flags: { trust_proxy: "127.0.0.0/8" } });

    const look = (key: string, forwardedFor?: string) =>
      instance.call(key, "GET /v1/self", undefined, {
        headers: forwardedFor === undefined ? {} : { "x-forwarded-for": forwardedFor },
      });

    it("never works because the proxy itself is in the list", async () => {
      const workspace = await instance.workspace();
      const { key } = await workspace.mint({ allowed_cidrs: ["127.0.0.0/8"] });
      for (const header of [undefined, "", "unknown", "127.0.0.1, unknown", "127.0.0.1, ", "127.0.0.1, 198.51.100.1"])
        expectRefusal(await look(key, header), 403, "ip_not_allowed");
      expect((await look(key, "127.0.0.5, 127.0.0.1")).status).toBe(200);
    });

    it("works from the address that the proxy names, with or without a port", async () => {
      const workspace = await instance.workspace();
      const { key } = await workspace.mint({ allowed_cidrs: ["203.0.113.0/24", "2001:db8::/32"] });
      for (const client of ["203.0.113.9", "203.0.113.9:4711", "2001:db8::9", "[2001:db8::9]:443"])
        expect((await look(key, `198.51.100.1, ${client}, 127.0.0.1`)).status).toBe(200);
      for (const client of ["198.51.100.1", "198.51.100.1:4711", "[2001:db9::9]:443"])
        expectRefusal(await look(key, `203.0.113.9, ${client}, 127.0.0.1`), 403, "ip_not_allowed");
    });
  });
}
