// After an absence of the service, nodes that had no chance to report count until they could have come back: in
// receipts, in the list of nodes and in the metrics, and none of them is removed.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { newPolicyProject, policyNode } from "../../../harness/instances/policy-feed.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { collectMetrics } from "../../../src/domain/health/metrics.ts";
import { countNodes, listFleet, listNodes } from "../../../src/domain/nodes/nodes.ts";
import { reapSilentNodes } from "../../../src/domain/policy/retention.ts";
import { recordPresence } from "../../../src/domain/nodes/presence.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends)
  describe(`after an absence of the service on ${backend}`, () => {
    const LIVE_MS = 120_000;
    /** A process that was there for 10 s steps until it, or its database, went away. */
    async function world(flags = {}) {
      const fixture = await testServices(backend, { flags });
      const project = await newPolicyProject(await vendorOf(fixture.services));
      const serve = async (ms: number) => {
        for (let served = 0; served < ms; served += 10_000) {
          fixture.clock.advance(10_000);
          await recordPresence(fixture.services);
        }
      };
      await recordPresence(fixture.services);
      return { fixture, ...project, serve, [Symbol.asyncDispose]: () => fixture[Symbol.asyncDispose]() };
    }

    it("a receipt counts nodes that were live before it, until they could have come back", async () => {
      await using workspace = await world();
      const { services, head, receipt, serve, fixture } = workspace;
      services.nodes.acknowledge(head, policyNode("stopped long before"), 0);
      await services.nodes.flushed();
      await serve(LIVE_MS);
      expect(await receipt()).toMatchObject({ complete: true, total_nodes: 0 });
      services.nodes.acknowledge(head, policyNode("waits to come back"), 0);
      await services.nodes.flushed();
      await recordPresence(services);
      fixture.clock.advance(10 * LIVE_MS);
      expect(await receipt()).toMatchObject({ complete: false, acked_nodes: 0, total_nodes: 1 });
      await serve(LIVE_MS / 2);
      fixture.clock.advance(LIVE_MS); // away again
      await serve(LIVE_MS - 10_000);
      expect(await receipt()).toMatchObject({ complete: false, acked_nodes: 0, total_nodes: 1 });
      await serve(20_000);
      expect(await receipt()).toMatchObject({ complete: true, total_nodes: 0 });
    });

    it("a receipt counts no node where this process was there, though no node has reported to it", async () => {
      await using workspace = await world();
      const { services, head, receipt, serve } = workspace;
      services.nodes.acknowledge(head, policyNode("of a process that has ended"), 0);
      await services.nodes.flushed();
      services.nodes.reportedAtMonotonic = -Infinity;
      await serve(2 * LIVE_MS);
      expect(await receipt()).toMatchObject({ complete: true, total_nodes: 0 });
    });

    it("a receipt is complete when they have come back", async () => {
      await using workspace = await world();
      const { services, head, receipt, fixture } = workspace;
      services.nodes.acknowledge(head, policyNode("n"), 0);
      await services.nodes.flushed();
      fixture.clock.advance(10 * LIVE_MS);
      services.nodes.acknowledge(head, policyNode("n"), 1);
      expect(await receipt()).toMatchObject({ complete: true, acked_nodes: 1 });
    });

    it("no node is removed for its silence, or for a newcomer, until it could have come back", async () => {
      await using workspace = await world({ nodes_max: "100" });
      const { services, head, receipt, serve, fixture } = workspace;
      const poll = async (name: string, count: number) => {
        for (let i = 0; i < count; i++) services.nodes.acknowledge(head, policyNode(`${name}-${i}`), 1);
        await services.nodes.flushed();
      };
      await poll("old", 100);
      fixture.clock.advance(2 * DAY_MS);
      expect(await reapSilentNodes(services)).toBe(0);
      await poll("new", 1);
      expect(await receipt()).toMatchObject({ complete: false, total_nodes: 100, unregistered_nodes: 1 });
      await recordPresence(services);
      await serve(LIVE_MS);
      await poll("new", 1);
      expect(await receipt()).toMatchObject({ complete: true, total_nodes: 1 });
      expect(await reapSilentNodes(services)).toBe(99);
    });

    it("the list of nodes, its counts and the metrics show them as live", async () => {
      await using workspace = await world();
      const { services, head, project_id, ctx, serve, fixture } = workspace;
      services.nodes.acknowledge(head, policyNode("n"), 1);
      await services.nodes.flushed();
      const shown = async () => {
        const fleet = await listFleet(ctx, { limit: 1 });
        const families = await collectMetrics(services);
        const nodes = families.find(({ name }) => name === "keyrack_nodes")?.samples ?? [];
        return {
          listed: [(await listNodes(ctx, project_id)).data[0]?.live, fleet.data[0]?.live],
          counts: [fleet.counts.live, fleet.counts.silent, (await countNodes(ctx, { env: "live" })).live],
          metrics: ["live", "silent"].map((state) => nodes.find(({ labels }) => labels?.state === state)?.value),
        };
      };
      fixture.clock.advance(3 * LIVE_MS);
      expect(await shown()).toEqual({ listed: [true, true], counts: [1, 0, 1], metrics: [1, 0] });
      await recordPresence(services);
      await serve(LIVE_MS);
      expect(await shown()).toEqual({ listed: [false, false], counts: [0, 1, 0], metrics: [0, 1] });
    });
  });
