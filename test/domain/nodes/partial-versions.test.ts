// A node that got a cut delta holds its version only in part: it may lack a change of a key that has changed again.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { newPolicyProject, ONCE } from "../../../harness/instances/policy-feed.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { NEVER_DISCONNECTS } from "../../../src/domain/core/subscription.ts";
import { disableKey } from "../../../src/domain/keys/disabling.ts";
import { editKey } from "../../../src/domain/keys/edits.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { awaitPropagation } from "../../../src/domain/nodes/propagation.ts";
import { policyDelta } from "../../../src/domain/policy/policy.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";

const CAPS = "cidr,disabled,formats,quotas";

for (const backend of runBackends) {
  describe(`a node with a cut delta on ${backend}`, () => {
    /** A node that is at the end of a cut delta, which lacks the first of two changes of one key. */
    async function newWorld(fixture: Awaited<ReturnType<typeof testServices>>) {
      const ctx = await vendorOf(fixture.services);
      const { project_id } = await newPolicyProject(ctx);
      const tenant_id = (await createTenant(ctx, { external_id: "t" })).id;
      const ids: string[] = [];
      for (let i = 0; i < 4; i++) ids.push((await createKey(ctx, { project_id, tenant_id, env: "live" })).id);
      const [first = "", second = "", third = "", other = ""] = ids;
      const version = async (): Promise<number> =>
        (await ctx.services.feed.head(ctx.actor.workspace_id, project_id)).version;
      const poll = async (since: number, tags: string[]): Promise<string> => {
        const query = { project_id, node: "n", caps: CAPS, since, wait_ms: 0, leaving: "false" as const };
        const caller = { hasTag: (tag: string) => tags.includes(tag), sdk: null };
        return (await policyDelta(ctx, query, caller, NEVER_DISCONNECTS)).tag;
      };
      const start = await version();
      await poll(start, []);
      for (const [n, id] of [first, second, third, first].entries()) await editKey(ctx, id, { scopes: [`s:${n}`] });
      const tag = await poll(start, []);
      const receipt = () => awaitPropagation(ctx, { project_id, version: start + 1, env: "live", needs: 0 }, ONCE);
      return { ctx, other, poll, version, tag, cutAt: start + 3, receipt };
    }

    it("acknowledges nothing by its tag, until it has the remainder", async () => {
      await using fixture = await testServices(backend, { flags: { snapshot_max_keys: "2" } });
      const { poll, version, tag, cutAt, receipt } = await newWorld(fixture);
      expect(tag).toMatch(new RegExp(`\\+cut:${cutAt}$`));
      const next = await poll(cutAt, [tag]);
      expect(next).not.toContain("+cut");
      expect(await receipt()).toMatchObject({ complete: false, acked_nodes: 0, total_nodes: 1 });
      await poll(await version(), [next]);
      expect(await receipt()).toMatchObject({ complete: true, acked_nodes: 1, total_nodes: 1 });
    });

    it("acknowledges nothing by its tag after the project has begun to use a capability", async () => {
      await using fixture = await testServices(backend, { flags: { snapshot_max_keys: "2" } });
      const { ctx, other, poll, tag, cutAt, receipt } = await newWorld(fixture);
      await disableKey(ctx, other, undefined);
      await poll(cutAt, [tag]); // its answer is lost
      expect(await receipt()).toMatchObject({ complete: false, acked_nodes: 0, total_nodes: 1 });
    });
  });
}
