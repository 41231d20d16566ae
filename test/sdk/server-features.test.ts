// The behaviour of the fake control plane, verified with a real server and a secret key that may only verify: leases,
// quotas, idempotent handlers, reports, a paged snapshot, a restart from the cache file, a wrong credential.

import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { idempotent, protect } from "../../src/sdk/adapters/node.ts";
import type { Keyrack, KeyrackOptions } from "../../src/sdk/index.ts";
import { internalsOf } from "../../src/sdk/internals.ts";
import { createKeyrackWith } from "../../src/sdk/keyrack.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { testInstance, type Json, type TestInstanceOptions } from "../../harness/instances/test-instance.ts";
import { patientPorts } from "../../harness/sdk/ports.ts";

async function world(backend: (typeof runBackends)[number], options: TestInstanceOptions = {}) {
  const instance = await testInstance(backend, options);
  const workspace = await instance.workspace();
  const restricted = { env: "live", permissions: ["verify"] };
  const { key: secretKey } = (await workspace.call("sk_owner", "POST /v1/secret_keys", restricted)).body;
  const closers: (() => unknown)[] = [];
  return {
    instance,
    workspace,
    node(more: Partial<KeyrackOptions> = {}) {
      const options = { url: instance.url, secretKey, projectId: workspace.project_id, ...more };
      // The server's clock does not move: reports after midnight would be of a day that it has not reached.
      const ports = { ...patientPorts(), now: () => instance.clock.now() };
      const keyrack = createKeyrackWith(options, ports) as Keyrack;
      closers.unshift(() => keyrack.close());
      return keyrack;
    },
    async serve(listener: RequestListener): Promise<string> {
      const server = createServer(listener);
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      closers.unshift(() => server.close().closeAllConnections());
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    },
    async [Symbol.asyncDispose]() {
      for (const close of closers) await close();
      await instance[Symbol.asyncDispose]();
    },
  };
}

for (const backend of runBackends) {
  describe(`on a real server with ${backend}`, () => {
    it("two nodes on leases admit no more than the limit between them", async () => {
      await using s = await world(backend);
      const limit = { id: "m", limit: 40, window_ms: 60_000, algorithm: "sliding", scope: "key" };
      const { key } = await s.workspace.mint({ rate_limits: [limit] });
      const headers = { authorization: `Bearer ${key}` };
      const nodes = [s.node(), s.node()];
      await Promise.all(nodes.map((node) => node.ready()));
      const urls = await Promise.all(
        nodes.map((node) => s.serve(protect(node, { limits: "lease" }, (_req, res) => res.end("in")))),
      );
      const statuses: number[] = [];
      for (let i = 0; i < 60; i++) statuses.push((await fetch(urls[i % 2] ?? "", { headers })).status);
      expect(statuses.filter((status) => status === 200).length).toBe(40);
      const last = await fetch(urls[0] ?? "", { headers });
      expect([last.status, last.headers.get("ratelimit-policy")]).toEqual([429, '"m";q=40;w=60']);
      expect(Number(last.headers.get("retry-after"))).toBeGreaterThan(0);
    });

    it("40 callers on three nodes with leases are admitted exactly as often as a tenant's quota says", async () => {
      await using s = await world(backend);
      const { workspace } = s;
      const [amount, callers, calls] = [200, 40, 6];
      const quotas = [{ id: "calls", amount, refill: "none" }];
      await workspace.call("sk_owner", `PATCH /v1/tenants/${workspace.tenant_id}`, { quotas });
      const keys = [await workspace.mint(), await workspace.mint()];
      const nodes = [s.node(), s.node(), s.node()];
      await Promise.all(nodes.map((node) => node.ready()));
      const guards = nodes.map((node) => internalsOf(node).guard({ limits: "lease" }));
      const statuses = new Map<number, number>();
      const request = async (i: number): Promise<number> => {
        const authorization = `Bearer ${keys[i % 2]!.key}`;
        const admitted = await guards[i % 3]!.admit(null, { method: "GET", path: "/", authorization, apiKey: null });
        const status = admitted.denial?.status ?? 200;
        admitted.done(status, null);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
        return status;
      };
      await Promise.all(
        Array.from({ length: callers }, async (_, i) => {
          for (let n = 0; n < calls; n++) await request(i + n);
        }),
      );
      expect(new Set(statuses.keys())).toEqual(new Set([200, 429]));
      // What is left is in leases of nodes that no caller asked again: closing returns it.
      await Promise.all(nodes.map((node) => node.close()));
      const read = async () =>
        (await workspace.call("sk_owner", `GET /v1/tenants/${workspace.tenant_id}/quotas`)).body.data[0];
      const admitted = statuses.get(200) ?? 0;
      expect(await read()).toMatchObject({ spent: admitted, held: 0, remaining: amount - admitted });
      expect(admitted).toBeGreaterThan(amount / 2);
      const { project_id } = workspace;
      const charge = { project_id, env: "live", key_id: keys[0]!.id, limits: [], quotas: true };
      const spend = async (cost: number): Promise<boolean> =>
        (await workspace.call("sk_owner", "POST /v1/ratelimit/check", { ...charge, cost })).body.allowed;
      expect(admitted === amount || (await spend(amount - admitted))).toBe(true);
      expect(await spend(1)).toBe(false);
    });

    it("an idempotent handler runs once, is replayed, rejects a mismatch, runs again after a throw, and all is reported", async () => {
      await using s = await world(backend);
      const { id, key } = await s.workspace.mint();
      const node = s.node();
      await node.ready();
      let runs = 0;
      const handler = protect(
        node,
        {},
        idempotent(node, (req, res) => {
          runs++;
          if (String(req.rawBody) === "throw" && runs === 2) throw new Error("not now");
          res.writeHead(201, { "x-run": String(runs) });
          res.end(`run ${runs}`);
        }),
      );
      const url = await s.serve((req, res) => {
        handler(req, res).catch(() => {
          res.statusCode = 500;
          res.end();
        });
      });
      const post = (name: string, body: string) =>
        fetch(url, { method: "POST", body, headers: { "x-api-key": key, "idempotency-key": name } });
      for (const replayed of [null, "true"]) {
        const response = await post("a", "x");
        expect([response.status, response.headers.get("x-run"), await response.text()]).toEqual([201, "1", "run 1"]);
        expect(response.headers.get("idempotent-replayed")).toBe(replayed);
      }
      expect((await post("a", "y")).status).toBe(422);
      expect((await post("b", "throw")).status).toBe(500);
      expect(await (await post("b", "throw")).text()).toBe("run 3");
      expect(runs).toBe(3);
      await node.close(); // sends the last reports
      const { body: usage } = await s.workspace.call("sk_owner", `GET /v1/keys/${id}/usage?days=2`);
      const total = (name: string): number => usage.data.reduce((sum: number, day: Json) => sum + Number(day[name]), 0);
      expect([total("requests"), total("errors")]).toEqual([5, 2]);
    });

    it("a snapshot of many pages is loaded completely", async () => {
      await using s = await world(backend, { flags: { snapshot_max_keys: "3" } });
      const keys = await Promise.all(Array.from({ length: 10 }, () => s.workspace.mint()));
      const node = s.node();
      await node.ready();
      expect(keys.filter(({ key }) => !node.verify(key).ok)).toEqual([]);
    });

    it("a vendor restarts from its cache file without the server, and a wrong secret key rejects ready() at once", async () => {
      await using s = await world(backend);
      const dir = mkdtempSync(join(tmpdir(), "keyrack-cache-"));
      const cacheFile = join(dir, "policy");
      const { key } = await s.workspace.mint({ scopes: ["a"] });
      const first = s.node({ cacheFile });
      await first.ready();
      await first.close();
      const wrong = s.node({ secretKey: "krsk_live_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXc18e6e29" });
      await expect(wrong.ready()).rejects.toThrow(/secret key is not accepted/);
      await s.instance.stop();
      const again = s.node({ cacheFile });
      await again.ready();
      expect(again.verify(key, { scopes: ["a"] })).toMatchObject({ ok: true, context: { verified: true } });
      rmSync(dir, { recursive: true });
    });
  });
}
