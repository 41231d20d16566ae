// Receipts about a node that polls several processes, as behind a load balancer: what it reported to one process is unknown
// to another.
import { describe, expect, it, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { newPolicyProject, ONCE, policyNode } from "../../../harness/instances/policy-feed.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { until } from "../../../harness/waiting.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { awaitPropagation } from "../../../src/domain/nodes/propagation.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";

/** A node of two processes that has reported to the first that it is at `old`, and a change after that. */
async function twoProcesses(fixture: TestServices, other: TestServices) {
  const ctx = await vendorOf(fixture.services);
  const { project_id } = await newPolicyProject(ctx);
  const head = () => ctx.services.feed.head(ctx.actor.workspace_id, project_id);
  const report = async ({ services }: TestServices, version: number): Promise<void> => {
    services.nodes.acknowledge(await head(), policyNode("n"), version);
    await services.nodes.flushed();
  };
  const { version: old } = await head();
  await report(fixture, old);
  const tenant = await createTenant(ctx, { external_id: "t" });
  await createKey(ctx, { project_id, tenant_id: tenant.id, env: "live" });
  const { version: current } = await head();
  const receipts = () =>
    Promise.all(
      [fixture, other].map(({ services }) =>
        awaitPropagation({ ...ctx, services }, { project_id, version: current, env: "live", needs: 0 }, ONCE),
      ),
    );
  return { old, current, report, receipts, head };
}

const COMPLETE = { complete: true, acked_nodes: 1, total_nodes: 1 };
const BEHIND = { complete: false, acked_nodes: 0, total_nodes: 1 };

for (const backend of runBackends) {
  describe(`a node that polls two processes on ${backend}`, () => {
    it("does not count as current after it has gone back to what the first process knows", async () => {
      await using fixture = await testServices(backend);
      await using other = await fixture.another();
      const { old, current, report, receipts } = await twoProcesses(fixture, other);
      await report(other, current);
      expect(await receipts()).toMatchObject([COMPLETE, COMPLETE]);
      await report(fixture, old); // it has started again from an older cache file
      expect(await receipts()).toMatchObject([BEHIND, BEHIND]);
      await report(fixture, current);
      expect(await receipts()).toMatchObject([COMPLETE, COMPLETE]);
    });

    it("does not count as current if it goes back while its earlier report is compared with its row", async () => {
      await using fixture = await testServices(backend);
      await using other = await fixture.another();
      const { old, current, report, receipts, head } = await twoProcesses(fixture, other);
      const { nodes, store } = fixture.services;
      const [gate, all] = [Promise.withResolvers<void>(), store.read.all.bind(store.read)];
      let hasRead = false;
      vi.spyOn(store.read, "all").mockImplementation(async (query) => {
        const rows = await all(query);
        if (query.sql.includes("policy_nodes")) {
          hasRead = true;
          await gate.promise;
        }
        return rows;
      });
      const now = await head();
      nodes.acknowledge(now, policyNode("n"), old);
      await until(() => hasRead);
      await report(other, current);
      nodes.acknowledge(now, policyNode("n"), old);
      gate.resolve();
      await nodes.flushed();
      expect(await receipts()).toMatchObject([BEHIND, BEHIND]);
    });

    it("costs no write for a report that changes nothing, behind the head or at it", async () => {
      await using fixture = await testServices(backend);
      await using other = await fixture.another();
      const { old, current, report } = await twoProcesses(fixture, other);
      const write = vi.spyOn(fixture.services.store, "write");
      await report(fixture, old);
      expect(write).not.toHaveBeenCalled();
      await report(fixture, current);
      await report(fixture, current);
      expect(write).toHaveBeenCalledOnce();
    });
  });
}
