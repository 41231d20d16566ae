// The library with a real server: a minted key reaches every node, and a revocation is acknowledged by every node.
import { describe, expect, it } from "vitest";
import { createKeyrack } from "../../src/sdk/index.ts";
import { backends } from "../../harness/databases/backends.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";

for (const back of backends) {
  describe(`the library on a real server with ${back}`, () => {
    it("verifies a new key and its scopes; revoke?wait=true returns when every node rejects it", async () => {
      await using r = await testInstance(back);
      const w = await r.workspace();
      const before = await w.mint({ scopes: ["orders:read"] });
      const nodes = Array.from({ length: 3 }, (_, i) =>
        createKeyrack({ url: r.url, secretKey: w.keys.sk_owner, projectId: w.project_id, nodeId: `node-${i}` }),
      );
      try {
        await Promise.all(nodes.map((node) => node.ready()));
        for (const node of nodes) {
          expect(node.verify(before.key, { scopes: ["orders:read"] })).toMatchObject({
            ok: true,
            context: { keyId: before.id, tenantId: w.tenant_id, env: "live", verified: true, degraded: false },
          });
          expect(node.verify(before.key, { scopes: ["orders:write"] })).toMatchObject({
            ok: false,
            code: "insufficient_scope",
            missing: ["orders:write"],
          });
        }
        const later = await w.mint();
        await expect.poll(() => nodes.every((node) => node.verify(later.key).ok)).toBe(true);
        const reply = await w.call("sk_owner", `POST /v1/keys/${before.id}/revoke?wait=true`);
        expect(reply.body.propagation).toMatchObject({ complete: true, acked_nodes: 3, total_nodes: 3 });
        for (const node of nodes) expect(node.verify(before.key)).toMatchObject({ ok: false, code: "invalid_key" });
        expect(nodes.every((node) => node.verify(later.key).ok)).toBe(true);
      } finally {
        await Promise.all(nodes.map((node) => node.close()));
      }
    });

    it("limits by the real counters and counts admitted requests", async () => {
      await using r = await testInstance(back);
      const w = await r.workspace();
      const limit = { id: "m", limit: 3, window_ms: 60_000, algorithm: "sliding", scope: "key" };
      const key = await w.mint({ rate_limits: [limit] });
      const { createServer } = await import("node:http");
      const { protect } = await import("../../src/sdk/adapters/node.ts");
      const node = createKeyrack({ url: r.url, secretKey: w.keys.sk_owner, projectId: w.project_id });
      await node.ready();
      const server = createServer(protect(node, {}, (_req, res) => res.end("ok")));
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as { port: number };
      const ask = async () =>
        (await fetch(`http://127.0.0.1:${port}/`, { headers: { authorization: `Bearer ${key.key}` } })).status;
      expect([await ask(), await ask(), await ask(), await ask()]).toEqual([200, 200, 200, 429]);
      server.close();
      await node.close();
      const usage = await w.call("sk_owner", `GET /v1/keys/${key.id}/usage?days=1`);
      expect(usage.body.data[0]).toMatchObject({ requests: 4, errors: 1 });
    });
  });
}
