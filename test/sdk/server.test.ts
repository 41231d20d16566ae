// The library with a real server: a minted key reaches every node, and a revocation is acknowledged by every node.
import { describe, expect, it } from "vitest";
import { createKeyrackWith } from "../../src/sdk/keyrack.ts";
import { backends } from "../../harness/databases/backends.ts";
import { testInstance } from "../../harness/instances/test-instance.ts";
import { patientPorts } from "../../harness/sdk/ports.ts";

for (const backend of backends) {
  describe(`the library on a real server with ${backend}`, () => {
    it("verifies a new key and its scopes; revoke?wait=true returns when every node rejects it", async () => {
      await using instance = await testInstance(backend);
      const workspace = await instance.workspace();
      const before = await workspace.mint({ scopes: ["orders:read"] });
      const nodes = Array.from({ length: 3 }, (_, i) =>
        createKeyrackWith(
          {
            url: instance.url,
            secretKey: workspace.keys.sk_owner,
            projectId: workspace.project_id,
            nodeId: `node-${i}`,
          },
          patientPorts(),
        ),
      );
      try {
        await Promise.all(nodes.map((node) => node.ready()));
        for (const node of nodes) {
          expect(node.verify(before.key, { scopes: ["orders:read"] })).toMatchObject({
            ok: true,
            context: { keyId: before.id, tenantId: workspace.tenant_id, env: "live", verified: true, degraded: false },
          });
          expect(node.verify(before.key, { scopes: ["orders:write"] })).toMatchObject({
            ok: false,
            code: "insufficient_scope",
            missing: ["orders:write"],
          });
        }
        const later = await workspace.mint();
        await expect.poll(() => nodes.every((node) => node.verify(later.key).ok)).toBe(true);
        const reply = await workspace.call("sk_owner", `POST /v1/keys/${before.id}/revoke?wait=true`);
        expect(reply.body.propagation).toMatchObject({ complete: true, acked_nodes: 3, total_nodes: 3 });
        for (const node of nodes) expect(node.verify(before.key)).toMatchObject({ ok: false, code: "invalid_key" });
        expect(nodes.every((node) => node.verify(later.key).ok)).toBe(true);
      } finally {
        await Promise.all(nodes.map((node) => node.close()));
      }
    });

    it("leaves no node behind that a revocation waits for, where it closes with its first policy", async () => {
      await using instance = await testInstance(backend);
      const workspace = await instance.workspace();
      const key = await workspace.mint();
      const options = { url: instance.url, secretKey: workspace.keys.sk_owner, projectId: workspace.project_id };
      for (let i = 0; i < 5; i++) {
        const node = createKeyrackWith({ ...options, nodeId: `job-${i}` }, patientPorts());
        await node.ready();
        await node.close();
      }
      const reply = await workspace.call("sk_owner", `POST /v1/keys/${key.id}/revoke?wait=true`);
      expect(reply.body.propagation).toMatchObject({ complete: true, total_nodes: 0 });
    });

    it("limits by the real counters and counts admitted requests", async () => {
      await using instance = await testInstance(backend);
      const workspace = await instance.workspace();
      const limit = { id: "m", limit: 3, window_ms: 60_000, algorithm: "sliding", scope: "key" };
      const key = await workspace.mint({ rate_limits: [limit] });
      const { createServer } = await import("node:http");
      const { protect } = await import("../../src/sdk/adapters/node.ts");
      const options = { url: instance.url, secretKey: workspace.keys.sk_owner, projectId: workspace.project_id };
      const { clock } = instance; // it does not move: events after midnight would be of a day that it has not reached
      const node = createKeyrackWith(options, { ...patientPorts(), now: () => clock.now() });
      await node.ready();
      const server = createServer(protect(node, {}, (_req, res) => res.end("ok")));
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      const { port } = server.address() as { port: number };
      const ask = async () =>
        (await fetch(`http://127.0.0.1:${port}/`, { headers: { authorization: `Bearer ${key.key}` } })).status;
      expect([await ask(), await ask(), await ask(), await ask()]).toEqual([200, 200, 200, 429]);
      server.close();
      await node.close();
      const usage = await workspace.call("sk_owner", `GET /v1/keys/${key.id}/usage?days=1`);
      expect(usage.body.data[0]).toMatchObject({ requests: 4, errors: 1 });
    });
  });
}
