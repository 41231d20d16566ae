// Receipts after an absence of the service: nodes that had no chance to report count until they could have come back.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { newPolicyProject, policyNode } from "../../../harness/instances/policy-feed.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { recordPresence } from "../../../src/domain/nodes/presence.ts";

for (const back of backends)
  describe(`after an absence of the service a receipt on ${back}`, () => {
    const LIVE_MS = 120_000;
    /** A process that was there for 10 s steps until it, or its database, went away. */
    async function world() {
      const fixture = await testServices(back);
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

    it("counts nodes that were live before it, until they could have come back", async () => {
      await using w = await world();
      const { services, head, receipt, serve, fixture } = w;
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

    it("counts none where this process was there, though no node has reported to it", async () => {
      await using w = await world();
      const { services, head, receipt, serve } = w;
      services.nodes.acknowledge(head, policyNode("of a process that has ended"), 0);
      await services.nodes.flushed();
      services.nodes.reportedAt = -Infinity;
      await serve(2 * LIVE_MS);
      expect(await receipt()).toMatchObject({ complete: true, total_nodes: 0 });
    });

    it("is complete when they have come back", async () => {
      await using w = await world();
      const { services, head, receipt, fixture } = w;
      services.nodes.acknowledge(head, policyNode("n"), 0);
      await services.nodes.flushed();
      fixture.clock.advance(10 * LIVE_MS);
      services.nodes.acknowledge(head, policyNode("n"), 1);
      expect(await receipt()).toMatchObject({ complete: true, acked_nodes: 1 });
    });
  });
