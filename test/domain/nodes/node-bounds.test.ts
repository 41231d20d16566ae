// The bound on nodes: forged nodes evict none that is live, and no receipt claims to know nodes that it does not
// know.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { ONCE, policyNode } from "../../../harness/instances/policy-feed.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { nodesHolding } from "../../../src/domain/nodes/needs.ts";
import { countNodes, listFleet } from "../../../src/domain/nodes/nodes.ts";
import { awaitPropagation } from "../../../src/domain/nodes/propagation.ts";
import type { Env } from "../../../src/kernel/credentials.ts";
import type { Head } from "../../../src/domain/policy/head.ts";
import type { Services } from "../../../src/domain/core/context.ts";

const MAX = 100;
const AT_LEAST_ONE = expect.any(Number);

for (const backend of runBackends) {
  describe(`nodes of a project on ${backend}`, () => {
    let fixture: TestServices;
    beforeAll(async () => {
      fixture = await testServices(backend, { flags: { nodes_max: String(MAX) } });
    });
    afterAll(() => fixture[Symbol.asyncDispose]());

    const newProject = async () => {
      const { services, clock } = fixture;
      const ctx = await vendorOf(services);
      const { id: project_id } = await createProject(ctx, { name: "P", slug: "p" });
      const { workspace_id } = ctx.actor;
      const head = { project_id, workspace_id, version: 1 } as Head;
      const poll = async (count: number, scope: Env | "all", name = "n", on: Services = services) => {
        for (let i = 0; i < count; i++) on.nodes.acknowledge(head, policyNode(`${name}-${scope}-${i}`, scope), 1);
        await on.nodes.flushed();
      };
      const receipt = (env: Env | null, on: Services = services) =>
        awaitPropagation({ ...ctx, services: on }, { project_id, version: 1, env, needs: 0 }, ONCE);
      const unregistered = async (env: Env) => (await listFleet(ctx, { env, limit: 1 })).counts.unregistered;
      return { ctx, project_id, poll, receipt, unregistered, clock };
    };

    it.runIf(backend === "sqlite")("let other work run while a large fleet is read", async () => {
      const { ctx, project_id } = await newProject();
      const seen = fixture.clock.now();
      const rows = Array.from({ length: 2_000 }, (_, i) => `('${project_id}', 'many-${i}', 'live', 1, ${seen})`);
      await fixture.sql(
        `insert into policy_nodes (project_id, node_id, env_scope, version, last_seen_at) values ${rows.join()}`,
      );
      const reads = {
        fleet: async () => (await listFleet(ctx, { limit: 1 })).counts.total,
        count: async () => (await countNodes(ctx, { env: "live" })).live,
        holding: async () => (await nodesHolding(ctx, { project_id, env: "live" })).length,
      };
      for (const [name, read] of Object.entries(reads)) {
        let turns = 0;
        const count = (): void => {
          turns++;
          next = setImmediate(count);
        };
        let next = setImmediate(count);
        expect(await read(), name).toBe(2_000);
        clearImmediate(next);
        expect(turns, name).toBeGreaterThanOrEqual(4);
      }
    });

    it("of test keys remove no live one, however many there are", async () => {
      const { poll, receipt } = await newProject();
      await poll(1, "live");
      await poll(1, "all");
      await poll(3 * MAX, "test", "forged");
      const live = await receipt("live");
      expect(live).toMatchObject({ complete: true, acked_nodes: 2, total_nodes: 2 });
      expect(live).not.toHaveProperty("unregistered_nodes");
      expect(await receipt("test")).toMatchObject({ complete: false, total_nodes: MAX + 1 });
    });

    it("above the bound are served unregistered, and no receipt is complete while they poll", async () => {
      const { poll, receipt, unregistered, clock } = await newProject();
      await poll(MAX, "live");
      expect(await receipt("live")).toMatchObject({ complete: true, total_nodes: MAX });
      expect(await unregistered("live")).toBe(0);
      await poll(3, "live", "late");
      expect(await unregistered("live")).toBeGreaterThan(0);
      const untrue = await receipt("live");
      expect(untrue).toMatchObject({
        complete: false,
        acked_nodes: MAX,
        total_nodes: MAX,
        unregistered_nodes: AT_LEAST_ONE,
      });
      await using other = await fixture.another();
      expect(await receipt("live", other.services)).toMatchObject({
        complete: false,
        unregistered_nodes: AT_LEAST_ONE,
      });
      clock.advance(60_000);
      await poll(MAX, "live");
      await poll(3, "live", "late");
      clock.advance(80_000);
      expect(await receipt("live")).toMatchObject({ complete: false, unregistered_nodes: AT_LEAST_ONE });
      clock.advance(60_000);
      await poll(MAX, "live");
      expect(await receipt("live")).toMatchObject({ complete: true, total_nodes: MAX });
    });

    it("that have fallen silent make room for others", async () => {
      const { poll, receipt, clock } = await newProject();
      await poll(MAX, "live", "old");
      clock.advance(121_000);
      await poll(5, "live", "new");
      expect(await receipt("live")).toMatchObject({ complete: true, total_nodes: 5 });
    });
  });

  it(`a receipt lists 1,000 nodes, those without the version first, and counts all, on ${backend}`, async () => {
    await using fixture = await testServices(backend);
    const ctx = await vendorOf(fixture.services);
    const { id: project_id } = await createProject(ctx, { name: "P", slug: "p" });
    const head = { project_id, workspace_id: ctx.actor.workspace_id, version: 1 } as Head;
    const { nodes } = fixture.services;
    for (let i = 0; i < 1_004; i++) nodes.acknowledge(head, policyNode(`n${i}`, "live"), i >= 1_002 ? 0 : 1);
    await nodes.flushed();
    const receipt = await awaitPropagation(ctx, { project_id, version: 1, env: "live", needs: 0 }, ONCE);
    expect(receipt).toMatchObject({ complete: false, acked_nodes: 1_002, total_nodes: 1_004, nodes_omitted: 4 });
    expect(receipt.nodes).toHaveLength(1_000);
    expect(receipt.nodes.slice(0, 3).map(({ node_id, acked }) => [node_id, acked])).toEqual([
      ["n1002", false],
      ["n1003", false],
      ["n0", true],
    ]);
    nodes.leave(head, policyNode("n1002", "live"));
    nodes.acknowledge(head, policyNode("n1003", "live"), 1);
    await nodes.flushed();
    const after = await awaitPropagation(ctx, { project_id, version: 1, env: "live", needs: 0 }, ONCE);
    expect(after).toMatchObject({ complete: true, acked_nodes: 1_003, total_nodes: 1_003, nodes_omitted: 3 });
  });

  it(`a receipt waits for a node that had the version and fell back meanwhile, on ${backend}`, async () => {
    await using fixture = await testServices(backend);
    const { nodes } = fixture.services;
    const ctx = await vendorOf(fixture.services);
    const { id: project_id } = await createProject(ctx, { name: "P", slug: "p" });
    const head = { project_id, workspace_id: ctx.actor.workspace_id, version: 2 } as Head;
    const acknowledge = async (name: string, version: number): Promise<void> => {
      nodes.acknowledge(head, policyNode(name, "live"), version);
      await nodes.flushed();
    };
    for (const name of ["a", "b"]) await acknowledge(name, 1);
    let isAnswered = false;
    const awaited = { project_id, version: 2, env: "live", needs: 0 } as const;
    const receipt = awaitPropagation(ctx, awaited, { ...ONCE, waitMs: 3_600_000 }).finally(() => (isAnswered = true));
    for (const [name, version] of [
      ["a", 2],
      ["a", 1],
      ["b", 2],
    ] as const)
      await acknowledge(name, version);
    expect(isAnswered).toBe(false);
    await acknowledge("a", 2);
    expect(await receipt).toMatchObject({ complete: true, acked_nodes: 2, total_nodes: 2 });
  });
}
