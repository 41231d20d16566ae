// The fleet: which nodes hold policy, how far behind they are, and which have acknowledged a change.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectNoScan } from "../../../harness/databases/plans.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import {
  countNeedingKeys,
  firstLagging,
  liveNodesAfter,
  newestNodes,
  nodesAfter,
  projectsWithNodes,
  unregisteredNodes,
} from "../../../src/store/queries/nodes.ts";
import { MINUTE_MS } from "../../../src/kernel/durations.ts";

const names = (body: { data: { node_id: string }[] }): string[] => body.data.map(({ node_id }) => node_id);

for (const backend of runBackends) {
  describe(`nodes on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const poll = async (
      workspace: Workspace,
      node: string,
      since: number,
      more = "",
      as: "sk_owner" | "sk_test" = "sk_owner",
    ) => {
      await workspace.call(
        as,
        `GET /v1/policy/delta?project_id=${workspace.project_id}&node=${node}&since=${since}${more}`,
      );
      await instance.app.services.nodes.flushed();
    };
    /** Time passes in which nodes could report. */
    const serve = (ms: number) => {
      instance.clock.advance(ms);
      instance.app.services.nodes.presentAt = instance.clock.now();
    };
    const versionOf = async (workspace: Workspace): Promise<number> =>
      (await workspace.call("sk_owner", `GET /v1/projects/${workspace.project_id}`)).body.policy_version;

    it("lists a project's nodes with their lag, the most recently seen first", async () => {
      const workspace = await instance.workspace();
      await workspace.mint();
      const version = await versionOf(workspace);
      await poll(workspace, "old", version);
      serve(3 * MINUTE_MS);
      await workspace.mint();
      await poll(workspace, "behind", version);
      instance.clock.advance(1);
      await poll(workspace, "current", version + 1);
      const { body } = await workspace.call("sk_owner", `GET /v1/nodes?project_id=${workspace.project_id}`);
      expect(body.data.map((node: Json) => [node.node_id, node.env_scope, node.lag, node.live])).toEqual([
        ["current", "all", 0, true],
        ["behind", "all", 1, true],
        ["old", "all", 1, false],
      ]);
      expect(Object.keys(body)).toEqual(["object", "data"]);
      expect(body.data[0]).toEqual({
        object: "node",
        project_id: workspace.project_id,
        node_id: "current",
        env_scope: "all",
        version: version + 1,
        lag: 0,
        live: true,
        caps: [],
        missing_caps: [],
        withheld_keys: 0,
        full_power: true,
        last_seen_at: new Date(instance.clock.now()).toISOString(),
      });
    });

    it("counts the fleet's states, whatever page or state is asked for", async () => {
      const workspace = await instance.workspace();
      await workspace.mint();
      const version = await versionOf(workspace);
      await poll(workspace, "silent", version);
      serve(3 * MINUTE_MS);
      await workspace.mint();
      serve(20_000);
      for (const node of ["a", "b", "c"]) await poll(workspace, node, version + 1);
      await poll(workspace, "late", version);
      const counts = { total: 5, live: 4, current: 3, late: 1, degraded: 0, silent: 1, unregistered: 0 };
      const fleet = (more = "") => workspace.call("sk_owner", `GET /v1/nodes?view=fleet${more}`);
      const whole = (await fleet()).body;
      expect(names(whole)).toEqual(["a", "b", "c", "late", "silent"]);
      expect([whole.counts, whole.next_cursor]).toEqual([counts, null]);
      expect(whole.data[3]).toMatchObject({ lag: 1, lag_ms: 20_000, late: true });
      for (const [state, expected] of [
        ["live", ["a", "b", "c", "late"]],
        ["late", ["late"]],
        ["silent", ["silent"]],
      ] as const) {
        const { body } = await fleet(`&state=${state}`);
        expect([names(body), body.counts]).toEqual([expected, counts]);
      }
      const first = (await fleet("&limit=2")).body;
      const second = (await fleet(`&limit=2&cursor=${first.next_cursor}`)).body;
      const third = (await fleet(`&limit=2&cursor=${second.next_cursor}`)).body;
      expect([first, second, third].map(names)).toEqual([["a", "b"], ["c", "late"], ["silent"]]);
      expect([third.next_cursor, third.counts]).toEqual([null, counts]);
      const foreign = await fleet(`&state=live&cursor=${first.next_cursor}`);
      expectRefusal(foreign, 400, "invalid_request");
      expect(foreign.body.error.details[0].path).toBe("cursor");
    });

    it("counts no key as withheld that no node would get: of a suspended tenant, or disabled", async () => {
      const workspace = await instance.workspace();
      const keys = await Promise.all([0, 1, 2].map(() => workspace.mint({ allowed_cidrs: ["10.0.0.0/8"] })));
      await poll(workspace, "old", 1);
      const withheld = async () =>
        (await workspace.call("sk_owner", `GET /v1/nodes?project_id=${workspace.project_id}`)).body.data[0]
          .withheld_keys;
      expect(await withheld()).toBe(3);
      await workspace.call("sk_owner", `POST /v1/tenants/${workspace.tenant_id}/suspend`, {});
      expect(await withheld()).toBe(0);
      await workspace.call("sk_owner", `POST /v1/tenants/${workspace.tenant_id}/resume`, {});
      await workspace.call("sk_owner", `POST /v1/keys/${keys[0]?.id}/disable`, {});
      expect(await withheld()).toBe(2);
    });

    it("shows a test secret key the nodes of test keys only, and another workspace none", async () => {
      const workspace = await instance.workspace();
      const other = await instance.workspace();
      await poll(workspace, "both", 1);
      await poll(workspace, "live-only", 1, "&env=live");
      await poll(workspace, "test-only", 1, "", "sk_test");
      const list = async (as: "sk_owner" | "sk_test", more = "") =>
        names((await workspace.call(as, `GET /v1/nodes?view=fleet${more}`)).body);
      expect(await list("sk_test")).toEqual(["test-only"]);
      expect(await list("sk_owner", "&env=test")).toEqual(["both", "test-only"]);
      expectRefusal(await workspace.call("sk_test", "GET /v1/nodes?view=fleet&env=live"), 403, "forbidden");
      expect((await other.call("sk_owner", "GET /v1/nodes?view=fleet")).body.data).toEqual([]);
      const foreign = `GET /v1/nodes?project_id=${workspace.project_id}`;
      expectRefusal(await other.call("sk_owner", foreign), 404, "not_found");
      expectRefusal(await workspace.call("sk_owner", "GET /v1/nodes"), 400, "invalid_request");
      expectRefusal(await workspace.call("sk_owner", `${foreign}&state=live`), 400, "invalid_request");
    });

    it("shows a restricted secret key the nodes of its projects only", async () => {
      const workspace = await instance.workspace();
      await poll(workspace, "elsewhere", 1);
      const own = (await workspace.call("sk_owner", "POST /v1/projects", { name: "P", slug: "own" })).body.id as string;
      const body = { env: "live", permissions: ["read"], project_ids: [own] };
      const { key } = (await workspace.call("sk_owner", "POST /v1/secret_keys", body)).body;
      const fleet = (await instance.call(key, "GET /v1/nodes?view=fleet")).body;
      expect([fleet.data, fleet.counts.total]).toEqual([[], 0]);
      expect((await instance.call(key, `GET /v1/nodes?project_id=${own}`)).status).toBe(200);
      expectRefusal(await instance.call(key, `GET /v1/nodes?project_id=${workspace.project_id}`), 404, "not_found");
      const elsewhere = `GET /v1/propagation?project_id=${workspace.project_id}&version=1`;
      expectRefusal(await instance.call(key, elsewhere), 404, "not_found");
    });

    it("lists the nodes of live keys, however many of test keys were seen later", async () => {
      const workspace = await instance.workspace();
      await poll(workspace, "live-node", 1);
      const seen = instance.clock.now() + 1;
      const rows = Array.from(
        { length: 1_100 },
        (_, i) => `('${workspace.project_id}', 'a-test-${i}', 'test', 1, ${seen})`,
      );
      await instance.sql(
        `insert into policy_nodes (project_id, node_id, env_scope, version, last_seen_at) values ${rows.join()}`,
      );
      const listed = names((await workspace.call("sk_owner", `GET /v1/nodes?project_id=${workspace.project_id}`)).body);
      expect([listed.length, listed.includes("live-node")]).toEqual([1_000, true]);
      const ofTest = names((await workspace.call("sk_test", `GET /v1/nodes?project_id=${workspace.project_id}`)).body);
      expect([ofTest.length, ofTest.includes("live-node")]).toEqual([1_000, false]);
      const fleet = (await workspace.call("sk_owner", `GET /v1/nodes?view=fleet&limit=2`)).body;
      expect([names(fleet), fleet.counts.total]).toEqual([["a-test-0", "a-test-1"], 1_101]);
    });

    it("reads the fleet through indexes", async () => {
      const { id: workspace_id, project_id } = await instance.workspace();
      const first = { project_id, node_id: "", env_scope: "" };
      await expectNoScan(instance.target, (on) => nodesAfter.all(on, { ...first, limit: 50 }));
      await expectNoScan(instance.target, (on) => liveNodesAfter.all(on, { ...first, seenAfter: 1, limit: 50 }));
      await expectNoScan(instance.target, (on) =>
        countNeedingKeys(on, { workspace_id, project_ids: [project_id], now: 1 }),
      );
      await expectNoScan(instance.target, (on) => newestNodes.all(on, { project_id, isTest: 1, limit: 50 }));
      await expectNoScan(instance.target, (on) => projectsWithNodes.all(on, { workspace_id }));
      const awaited = { project_id, version: 1, first: "", one: "live", other: "test" } as const;
      await expectNoScan(instance.target, (on) => firstLagging(on, [awaited, awaited], 1));
      await expectNoScan(instance.target, (on) =>
        unregisteredNodes.all(on, { ids: JSON.stringify([project_id, workspace_id]), seenAfter: 1 }),
      );
    });

    it("finds the first live node that lacks a version of its project, from a node on", async () => {
      const [{ project_id }, { project_id: empty }] = [await instance.workspace(), await instance.workspace()];
      const { read } = instance.app.services.store;
      const rows = [
        ["a-silent", 1, 10],
        ["b-current", 2, 20],
        ["c-behind", 1, 20],
        ["d-behind", 1, 20],
      ].map(([node, version, seen]) => `('${project_id}', '${node}', 'live', ${version}, ${seen})`);
      await instance.sql(
        `insert into policy_nodes (project_id, node_id, env_scope, version, last_seen_at) values ${rows.join()}`,
      );
      const awaited = { project_id, version: 2, first: "", one: "live", other: "live" } as const;
      const inEmpty = { ...awaited, project_id: empty };
      expect(await firstLagging(read, [inEmpty, awaited], 10)).toEqual({ project_id, node_id: "c-behind" });
      const later = { ...awaited, first: "d" };
      expect(await firstLagging(read, [later], 10)).toEqual({ project_id, node_id: "d-behind" });
      const ofTest = { ...awaited, one: "test", other: "test" } as const;
      for (const none of [inEmpty, ofTest, { ...awaited, first: "e" }, { ...awaited, version: 1 }])
        expect(await firstLagging(read, [none], 10)).toBeUndefined();
    });

    it("names the nodes that have not acknowledged a version, and waits for them", async () => {
      const workspace = await instance.workspace();
      const key = await workspace.mint();
      const version = await versionOf(workspace);
      for (const node of ["fast", "slow"]) await poll(workspace, node, version);
      await workspace.call("sk_owner", `POST /v1/keys/${key.id}/revoke`, {});
      const route = `GET /v1/propagation?project_id=${workspace.project_id}&version=${version + 1}`;
      const acked = ({ body }: { body: { nodes: Json[] } }) => body.nodes.map(({ node_id, acked }) => [node_id, acked]);
      expect((await workspace.call("sk_owner", route)).body).toMatchObject({
        object: "propagation",
        project_id: workspace.project_id,
        version: version + 1,
        complete: false,
        acked_nodes: 0,
        total_nodes: 2,
      });
      await poll(workspace, "fast", version + 1);
      expect(acked(await workspace.call("sk_owner", route))).toEqual([
        ["slow", false],
        ["fast", true],
      ]);
      const waiting = workspace.call("sk_owner", `${route}&wait_ms=30000`);
      await poll(workspace, "slow", version + 1);
      expect((await waiting).body).toMatchObject({ complete: true, acked_nodes: 2 });
      const later = await workspace.call(
        "sk_owner",
        `GET /v1/propagation?project_id=${workspace.project_id}&version=${version + 2}`,
      );
      expectRefusal(later, 400, "invalid_request");
      expect(later.body.error.details[0].path).toBe("version");
      expectRefusal(await workspace.call("sk_test", `${route}&env=live`), 403, "forbidden");
      const other = await instance.workspace();
      expectRefusal(await other.call("sk_owner", route), 404, "not_found");
    });
  });
}
