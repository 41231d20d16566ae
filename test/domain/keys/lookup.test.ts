// Looking a key up: the nodes that have it.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { vendorWithTenant } from "../../../harness/databases/jobs.ts";
import { keyActor, testServices } from "../../../harness/instances/test-services.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { showVerdict } from "../../../src/domain/keys/lookup.ts";

for (const backend of backends) {
  describe(`looking a test key up on ${backend}`, () => {
    it("counts the same nodes as live, current and withheld: those that hold test keys", async () => {
      await using f = await testServices(backend);
      const { ctx, project, want } = await vendorWithTenant(f);
      const quotas = [{ id: "calls", amount: 2, refill: "none", time_zone: "UTC", overage: "deny" } as const];
      const { id } = await createKey(ctx, { ...want, env: "test", quotas });
      const [head] = await f.sql("select policy_version from projects");
      const version = Number(head?.policy_version);
      const nodes = [
        ["both", "all", version - 1, ""],
        ["of-test", "test", version, "quotas"],
        ["of-live", "live", version, ""],
      ] as const;
      for (const [node_id, scope, at, caps] of nodes)
        await f.sql(
          `insert into policy_nodes (project_id, node_id, env_scope, version, caps, last_seen_at)
           values ('${project.id}', '${node_id}', '${scope}', ${at}, '${caps}', ${f.clock.now()})`,
        );
      const actor = keyActor(ctx.actor.workspace_id, { id: "k", env: "test" });
      const shown = await showVerdict({ services: f.services, actor }, id);
      expect(shown.nodes).toEqual({ live: 2, current: 1, withheld: 1 });
      expect(shown.reasons.map(({ code }) => code)).toEqual(["nodes_behind", "nodes_withheld"]);
    });
  });
}
