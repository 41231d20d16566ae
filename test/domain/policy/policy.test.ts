// Snapshots around the chunk size: valid JSON that contains every key once. Deltas beside further changes.
import { describe, expect, it } from "vitest";
import { disableKey } from "../../../src/domain/keys/disabling.ts";
import { editKey } from "../../../src/domain/keys/edits.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { CHUNK_KEYS, PageBuilder } from "../../../src/domain/policy/build-page.ts";
import { filterOf } from "../../../src/domain/policy/filter.ts";
import { policySnapshot } from "../../../src/domain/policy/policy.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { NEW_CALLER } from "../../../harness/models/feed.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";

type Delta = { version: number; changes: object[] };

for (const backend of backends) {
  describe(`a snapshot on ${backend}`, () => {
    it("is complete at the boundaries of the chunks it is read in", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const [project, tenant] = [
        await createProject(ctx, { name: "p", slug: "p" }),
        await createTenant(ctx, { external_id: "t" }),
      ];
      const mint = (): Promise<{ id: string }> =>
        createKey(ctx, { project_id: project.id, tenant_id: tenant.id, env: "live" });
      const snapshot = async (max_keys?: number): Promise<{ ids: string[]; more: boolean }> => {
        const { page } = await policySnapshot(ctx, { project_id: project.id, max_keys }, NEW_CALLER);
        const text = Buffer.concat(await fixture.services.feed.pages.plain(page!)).toString();
        const { keys, next_cursor } = JSON.parse(text) as { keys: { key_id: string }[]; next_cursor: string | null };
        return { ids: keys.map(({ key_id }) => key_id), more: next_cursor !== null };
      };
      expect(await snapshot()).toEqual({ ids: [], more: false });
      const made = (await Promise.all(Array.from({ length: CHUNK_KEYS }, mint))).map(({ id }) => id).toSorted();
      expect(await snapshot()).toEqual({ ids: made, more: false });
      expect(await snapshot(CHUNK_KEYS)).toEqual({ ids: made, more: false });
      made.push((await mint()).id);
      expect(await snapshot()).toEqual({ ids: made, more: false });
      expect(await snapshot(CHUNK_KEYS)).toEqual({ ids: made.slice(0, CHUNK_KEYS), more: true });
    });
  });

  describe(`a delta on ${backend}`, () => {
    it("removes a disabled key that changes again while the delta is being built", async () => {
      await using fixture = await testServices(backend);
      const { services } = fixture;
      const ctx = await vendorOf(services);
      const { workspace_id } = ctx.actor;
      const { id: project_id } = await createProject(ctx, { name: "p", slug: "p" });
      const { id: tenant_id } = await createTenant(ctx, { external_id: "t" });
      const { id } = await createKey(ctx, { project_id, tenant_id, env: "live" });
      const before = await services.feed.head(workspace_id, project_id);
      await disableKey(ctx, id, undefined);
      const head = await services.feed.head(workspace_id, project_id); // as a poll reads it
      await editKey(ctx, id, { name: "renamed" });
      const page = await new PageBuilder(ctx, head, filterOf(ctx, { project_id })).delta(before.version, 100);
      const { version, changes } = JSON.parse(Buffer.concat(page.chunks ?? []).toString()) as Delta;
      expect(version).toBe(head.version);
      expect(changes).toMatchObject([{ change: "remove", key_id: id, env: "live", reason: "disabled" }]);
    });
  });
}
