// Warnings about nodes that do not get a new key: from one read for all keys that are created together, which does not
// come after their commit.
import { describe, expect, it, vi } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { vendorWithTenant } from "../../../harness/databases/jobs.ts";
import { testServices } from "../../../harness/instances/test-services.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { editProject } from "../../../src/domain/workspaces/projects.ts";

const PATH = "key_prefix";
const MESSAGE = "1 of 1 live nodes cannot enforce this and do not get the keys: update their library";

for (const backend of backends) {
  describe(`keys with a prefix of their own on ${backend}`, () => {
    it("that are created together share reads of the nodes, and all name the one that lacks their format", async () => {
      await using f = await testServices(backend);
      const { ctx, project, want } = await vendorWithTenant(f);
      await editProject(ctx, project.id, { key_prefix: "acme" });
      await f.sql(
        `insert into policy_nodes (project_id, node_id, env_scope, version, last_seen_at)
         values ('${project.id}', 'old', 'all', 1, ${f.clock.now()})`,
      );
      const all = vi.spyOn(f.services.store.read, "all");
      const created = await Promise.all(Array.from({ length: 20 }, () => createKey(ctx, want)));
      const reads = all.mock.calls.filter(([{ sql }]) => sql.includes("policy_nodes")).length;
      expect(created.map(({ warnings }) => warnings)).toEqual(created.map(() => [{ path: PATH, message: MESSAGE }]));
      expect([reads > 0, reads < created.length]).toEqual([true, true]);
    });

    it("that are not stored are refused with the reason, whether the nodes can be read or not", async () => {
      await using f = await testServices(backend);
      const { ctx, project, want } = await vendorWithTenant(f);
      await editProject(ctx, project.id, { key_prefix: "acme" });
      const { store } = f.services;
      const unreadable = vi.spyOn(store.read, "all").mockRejectedValue(new Error("unreadable"));
      const write = store.write.bind(store);
      const refused = vi.spyOn(store, "write").mockImplementation((job) =>
        write({
          ...job,
          work: async (tx) => {
            await job.work(tx);
            throw new Error("not stored");
          },
        }),
      );
      await expect(createKey(ctx, want)).rejects.toThrow("not stored");
      await expect.poll(() => unreadable.mock.calls.length).toBeGreaterThan(0); // its error reaches no caller
      refused.mockRestore();
      unreadable.mockRestore();
      expect(await f.sql("select id from api_keys")).toEqual([]);
    });
  });
}
