// Libraries and servers of different releases together: nothing that an earlier library does not know makes it admit a
// key, and a later library works with an earlier server.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../harness/databases/backends.ts";
import { testInstance, type TestInstance, type Workspace } from "../../harness/instances/test-instance.ts";
import { earlierSdk, type EarlierSdk } from "../../harness/sdk/earlier-sdk.ts";
import { earlierServer } from "../../harness/sdk/earlier-server.ts";
import { ManualPorts, patientPorts } from "../../harness/sdk/ports.ts";
import { until } from "../../harness/waiting.ts";
import { createKeyrack } from "../../src/sdk/index.ts";
import { internalsOf } from "../../src/sdk/internals.ts";
import { createKeyrackWith } from "../../src/sdk/keyrack.ts";
import { SDK_NAME, SDK_VERSION } from "../../src/sdk/version.ts";

for (const backend of runBackends) {
  describe(`a node of release 0.1.0 beside a new one on ${backend}`, () => {
    let instance: TestInstance;
    let sdk: EarlierSdk;
    beforeAll(async () => {
      [instance, sdk] = await Promise.all([testInstance(backend), earlierSdk()]);
    });
    afterAll(() => instance[Symbol.asyncDispose]());

    const options = (workspace: Workspace, nodeId: string) => ({
      url: instance.url,
      secretKey: workspace.keys.sk_owner,
      projectId: workspace.project_id,
      nodeId,
    });
    const code = (verdict: { ok: true } | { ok: false; status: number; code: string }): string =>
      verdict.ok ? "200" : `${verdict.status} ${verdict.code}`;

    it("refuses a disabled key as invalid while the new one says that it is disabled, and admits it again", async () => {
      const workspace = await instance.workspace();
      const key = await workspace.mint();
      const old = sdk.createKeyrack(options(workspace, "old"));
      const fresh = createKeyrack(options(workspace, "new"));
      try {
        await Promise.all([old.ready(), fresh.ready()]);
        const both = () => [code(old.verify(key.key)), code(fresh.verify(key.key))];
        expect(both()).toEqual(["200", "200"]);
        const { body } = await workspace.call("sk_owner", `POST /v1/keys/${key.id}/disable?wait=true`, {});
        expect(body.propagation).toMatchObject({ complete: true, acked_nodes: 2, withheld_nodes: 0 });
        expect(both()).toEqual(["401 invalid_key", "403 key_disabled"]);
        const { body: nodes } = await workspace.call("sk_owner", `GET /v1/nodes?project_id=${workspace.project_id}`);
        const caps = nodes.data.map((node: { node_id: string; caps: string[] }) => [node.node_id, node.caps]);
        expect(Object.fromEntries(caps)).toMatchObject({ old: [], new: expect.arrayContaining(["disabled"]) });
        const { body: fleet } = await workspace.call("sk_owner", "GET /v1/nodes?view=fleet");
        const sdks = fleet.data.map((node: { node_id: string; sdk: unknown }) => [node.node_id, node.sdk]);
        expect(Object.fromEntries(sdks)).toEqual({ old: null, new: { name: SDK_NAME, version: SDK_VERSION } });
        await workspace.call("sk_owner", `POST /v1/keys/${key.id}/enable?wait=true`, {});
        expect(both()).toEqual(["200", "200"]);
      } finally {
        await Promise.all([old.close(), fresh.close()]);
      }
    });

    it("never gets a key with another prefix than kr, which works on the new one", async () => {
      const workspace = await instance.workspace();
      const [before, prefix] = [await workspace.mint(), `old${backend.slice(0, 2)}`];
      const old = sdk.createKeyrack(options(workspace, "old"));
      const fresh = createKeyrack(options(workspace, "new"));
      try {
        await Promise.all([old.ready(), fresh.ready()]);
        await instance.app.services.nodes.flushed();
        const changed = await workspace.call("sk_owner", `PATCH /v1/projects/${workspace.project_id}`, {
          key_prefix: prefix,
        });
        expect(changed.body.warnings).toEqual([
          { path: "key_prefix", message: expect.stringContaining("1 of 2 live nodes") },
        ]);
        const key = await workspace.mint();
        expect([key.key.startsWith(`${prefix}_live_`), (key.warnings as unknown[]).length]).toEqual([true, 1]);
        await until(() => fresh.verify(key.key).ok);
        await until(() => old.status().version === fresh.status().version);
        expect([code(old.verify(key.key)), old.status().keys]).toEqual(["401 invalid_key", 1]);
        expect([code(old.verify(before.key)), code(fresh.verify(before.key))]).toEqual(["200", "200"]);
        const { body: listed } = await workspace.call("sk_owner", `GET /v1/nodes?project_id=${workspace.project_id}`);
        const withheld = listed.data.map((node: Record<string, unknown>) => [node.node_id, node.withheld_keys]);
        expect(Object.fromEntries(withheld)).toEqual({ old: 1, new: 0 });
        await workspace.call("sk_owner", `POST /v1/keys/${key.id}/disable?wait=true`, {});
        const { body } = await workspace.call("sk_owner", `POST /v1/keys/${key.id}/enable?wait=true`, {});
        expect(body.propagation).toMatchObject({
          complete: true,
          withheld_nodes: 1,
          nodes: [
            { node_id: "new", missing_caps: [] },
            { node_id: "old", missing_caps: ["formats"] },
          ],
        });
        expect([code(old.verify(key.key)), code(fresh.verify(key.key))]).toEqual(["401 invalid_key", "200"]);
      } finally {
        await Promise.all([old.close(), fresh.close()]);
      }
    });

    it("never gets a key with a quota, which the new one refuses at zero; the fleet names the old one", async () => {
      const workspace = await instance.workspace();
      const old = sdk.createKeyrack(options(workspace, "old"));
      const fresh = createKeyrackWith(options(workspace, "new"), patientPorts());
      try {
        await Promise.all([old.ready(), fresh.ready()]);
        await instance.app.services.nodes.flushed();
        const key = await workspace.mint({ quotas: [{ id: "calls", amount: 1, refill: "none" }] });
        expect(key.warnings).toEqual([{ path: "quotas", message: expect.stringContaining("1 of 2 live nodes") }]);
        await until(() => fresh.verify(key.key).ok);
        await until(() => old.status().version === fresh.status().version);
        const guard = internalsOf(fresh).guard();
        const request = { method: "GET", path: "/", authorization: `Bearer ${key.key}`, apiKey: null };
        const statuses = [await guard.admit(null, request), await guard.admit(null, request)];
        expect(statuses.map(({ denial }) => denial?.status ?? 200)).toEqual([200, 429]);
        expect(code(old.verify(key.key))).toBe("401 invalid_key");
        const { body } = await workspace.call("sk_owner", "GET /v1/nodes?view=fleet");
        const lacking = body.data.map((node: Record<string, unknown>) => [node.node_id, node.missing_caps]);
        expect(Object.fromEntries(lacking)).toEqual({ old: ["quotas"], new: [] });
      } finally {
        await Promise.all([old.close(), fresh.close()]);
      }
    });

    it("never gets a key that is confined to networks, its own or its tenant's, which the new one admits from them", async () => {
      const workspace = await instance.workspace();
      const [key, inherits, reported] = [await workspace.mint(), await workspace.mint(), await workspace.mint()];
      const old = sdk.createKeyrack(options(workspace, "old"));
      const fresh = createKeyrack(options(workspace, "new"));
      const from = (text: string) =>
        ["203.0.113.9", "198.51.100.1", null].map((ip) => code(fresh.verify(text, { ip })));
      const CONFINED = ["200", "403 ip_not_allowed", "403 ip_not_allowed"];
      try {
        await Promise.all([old.ready(), fresh.ready()]);
        await instance.app.services.nodes.flushed();
        const list = { allowed_cidrs: ["203.0.113.0/24"] };
        const { body } = await workspace.call("sk_owner", `PATCH /v1/keys/${key.id}?wait=true`, list);
        const nodes = [
          { node_id: "new", acked: true, missing_caps: [] },
          { node_id: "old", acked: true, missing_caps: ["cidr"] },
        ];
        expect(body.propagation).toMatchObject({ complete: true, acked_nodes: 2, withheld_nodes: 1, nodes });
        expect(body.warnings).toEqual([
          { path: "allowed_cidrs", message: expect.stringContaining("1 of 2 live nodes") },
        ]);
        expect([code(old.verify(key.key)), ...from(key.key)]).toEqual(["401 invalid_key", ...CONFINED]);
        // A tenant's list reaches the others; one of them is only reported.
        await workspace.call("sk_owner", `PATCH /v1/keys/${reported.id}`, { ...list, ip_mode: "report" });
        const tenant = await workspace.call("sk_owner", `PATCH /v1/tenants/${workspace.tenant_id}?wait=true`, list);
        expect(tenant.body.propagation).toMatchObject({ complete: true, withheld_nodes: 1, projects: [{ nodes }] });
        expect(tenant.body.warnings).toHaveLength(1);
        expect([code(old.verify(inherits.key)), ...from(inherits.key)]).toEqual(["401 invalid_key", ...CONFINED]);
        expect([code(old.verify(reported.key)), ...from(reported.key)]).toEqual(Array(4).fill("200"));
        const { body: listed } = await workspace.call("sk_owner", `GET /v1/nodes?project_id=${workspace.project_id}`);
        const withheld = listed.data.map((node: Record<string, unknown>) => [
          node.node_id,
          [node.withheld_keys, node.missing_caps],
        ]);
        expect(Object.fromEntries(withheld)).toEqual({ old: [2, ["cidr"]], new: [0, []] });
        // Without the list, the old one gets the key back.
        await workspace.call("sk_owner", `PATCH /v1/keys/${key.id}?wait=true`, { allowed_cidrs: [] });
        expect([code(old.verify(key.key)), ...from(key.key)]).toEqual(Array(4).fill("200"));
      } finally {
        await Promise.all([old.close(), fresh.close()]);
      }
    });

    it("does not read the cache file of a new one, which reads that of an old one", async () => {
      const workspace = await instance.workspace();
      const folder = await mkdtemp(join(tmpdir(), "keyrack-releases-"));
      const [key, disabled, confined] = [
        await workspace.mint(),
        await workspace.mint(),
        await workspace.mint({ allowed_cidrs: ["10.0.0.0/8"] }),
      ];
      await workspace.call("sk_owner", `POST /v1/keys/${disabled.id}/disable`, {});
      const file = (name: string) => ({ ...options(workspace, name), cacheFile: join(folder, name) });
      try {
        for (const node of [sdk.createKeyrack(file("old")), createKeyrack(file("new"))]) {
          await node.ready();
          await node.close();
        }
        const unreachable = { url: "http://127.0.0.1:9", log: () => {} };
        const old = sdk.createKeyrack({ ...file("new"), ...unreachable });
        const fresh = createKeyrack({ ...file("old"), ...unreachable });
        await fresh.ready();
        expect([code(fresh.verify(key.key)), code(fresh.verify(disabled.key))]).toEqual(["200", "401 invalid_key"]);
        expect(code(fresh.verify(confined.key, { ip: "10.0.0.1" }))).toBe("401 invalid_key"); // it was never in that file
        const ofOld = [key, disabled, confined].map((one) => code(old.verify(one.key)));
        expect(ofOld).toEqual(Array(3).fill("503 unavailable"));
        expect(old.status().version).toBeNull();
        await Promise.all([old.close(), fresh.close()]);
      } finally {
        await rm(folder, { recursive: true });
      }
    });

    it("of this release works with a server of 0.1.0, and catches up after its upgrade without a restart", async () => {
      await using server = await earlierServer(instance.url);
      const workspace = await instance.workspace();
      const [key, disabled] = [await workspace.mint(), await workspace.mint()];
      await workspace.call("sk_owner", `POST /v1/keys/${disabled.id}/disable`, {});
      const ports = new ManualPorts();
      const node = createKeyrackWith({ ...options(workspace, "new"), url: server.url }, ports);
      try {
        await node.ready();
        const both = () => [code(node.verify(key.key)), code(node.verify(disabled.key))];
        expect([server.refused, ...both()]).toEqual([1, "200", "401 invalid_key"]);
        const later = await workspace.mint();
        await until(() => node.verify(later.key).ok);
        server.upgraded = true;
        ports.mono += 10 * 60_000;
        await workspace.mint(); // ends the poll in flight
        await until(() => node.status().caps.length > 0);
        expect(both()).toEqual(["200", "403 key_disabled"]);
      } finally {
        await node.close();
      }
    });
  });
}
