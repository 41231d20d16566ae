// What a node gets never depends on what the server believed a moment ago: a key that is restricted while a page is
// being built is not in the page of a node that cannot enforce the restriction.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { NEW_CALLER } from "../../../harness/models/feed.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { disableKey } from "../../../src/domain/keys/disabling.ts";
import { editKey } from "../../../src/domain/keys/edits.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { PageBuilder } from "../../../src/domain/policy/build-page.ts";
import { filterOf } from "../../../src/domain/policy/filter.ts";
import type { Page } from "../../../src/domain/policy/page-cache.ts";
import { policySnapshot } from "../../../src/domain/policy/policy.ts";
import { createProject, editProject } from "../../../src/domain/workspaces/projects.ts";
import { suspendTenant } from "../../../src/domain/workspaces/suspension.ts";
import { createTenant, editTenant } from "../../../src/domain/workspaces/tenants.ts";

const ALL = "cidr,disabled,formats";

for (const backend of runBackends) {
  describe(`pages on ${backend}`, () => {
    it("have the prefix of every key in them, although the head is older than the prefix", async () => {
      await using fixture = await testServices(backend);
      const { services } = fixture;
      const ctx = await vendorOf(services);
      const project_id = (await createProject(ctx, { name: "p", slug: "p", key_prefix: "acme" })).id;
      const tenant_id = (await createTenant(ctx, { external_id: "t" })).id;
      await createKey(ctx, { project_id, tenant_id, env: "live" });
      const stale = await services.feed.head(ctx.actor.workspace_id, project_id);
      await editProject(ctx, project_id, { key_prefix: "initech" });
      await createKey(ctx, { project_id, tenant_id, env: "live" });
      const filter = filterOf(ctx, { project_id, caps: ALL });
      const start = { version: stale.version, after: "" };
      for (const page of [
        await new PageBuilder(ctx, stale, filter).delta(1, 100),
        await new PageBuilder(ctx, stale, filter).snapshot(start, 100),
      ]) {
        const body = JSON.parse(Buffer.concat(await services.feed.pages.plain(page)).toString());
        const entries = (body.keys ?? body.changes) as { display_prefix: string }[];
        const used = entries.map(({ display_prefix }) => display_prefix.split("_")[0]);
        expect([used, body.key_prefixes]).toEqual([
          ["acme", "initech"],
          ["initech", "acme"],
        ]);
      }
    });

    it("have no restricted key for a node that cannot enforce it, although the head is older than the restriction", async () => {
      await using fixture = await testServices(backend);
      const { services } = fixture;
      const ctx = await vendorOf(services);
      const project_id = (await createProject(ctx, { name: "p", slug: "p" })).id;
      const newTenant = async (external_id: string) => (await createTenant(ctx, { external_id })).id;
      const [tenant_id, suspended] = [await newTenant("t"), await newTenant("s")];
      const mint = async (tenant: string) => (await createKey(ctx, { project_id, tenant_id: tenant, env: "live" })).id;
      const plain = await mint(tenant_id);
      const confined = await newTenant("c");
      const [listed, ofConfined] = [await mint(tenant_id), await mint(confined)];
      const [disabled, ofSuspended] = [await mint(tenant_id), await mint(suspended)];
      const stale = await services.feed.head(ctx.actor.workspace_id, project_id);
      expect(stale.features).toBe(0);
      await disableKey(ctx, disabled, undefined);
      await suspendTenant(ctx, suspended, undefined);
      await editKey(ctx, listed, { allowed_cidrs: ["10.0.0.0/8"] });
      await editTenant(ctx, confined, { allowed_cidrs: ["10.0.0.0/8"] });
      await editProject(ctx, project_id, { key_prefix: "acme" });
      await mint(tenant_id);
      const idsOf = async (page: Page): Promise<string[]> => {
        const body = JSON.parse(Buffer.concat(await services.feed.pages.plain(page)).toString());
        const entries = (body.keys ?? body.changes) as { key_id: string; change?: string }[];
        return entries.filter(({ change }) => change !== "remove").map(({ key_id }) => key_id);
      };
      // With a head that knows of nothing, every node is one that announces nothing.
      for (const caps of [undefined, ALL]) {
        const filter = filterOf(ctx, { project_id, caps });
        const page = await new PageBuilder(ctx, stale, filter).snapshot({ version: stale.version, after: "" }, 100);
        expect(await idsOf(page)).toEqual([plain]);
        // A delta may contain later changes; those that such a node cannot enforce are removals.
        expect(await idsOf(await new PageBuilder(ctx, stale, filter).delta(1, 100))).toEqual([plain]);
      }
      expect(new Set([plain, ofSuspended, ofConfined]).size).toBe(3);
      // Each set of capabilities has pages of its own, whichever was built first.
      const counts = async (caps: string | undefined): Promise<number> => {
        const { page } = await policySnapshot(ctx, { project_id, caps }, NEW_CALLER);
        return (await idsOf(page as Page)).length;
      };
      for (const order of [
        [undefined, "cidr", "disabled", "formats", ALL],
        [ALL, "formats", "disabled", "cidr", undefined],
      ]) {
        const found = Object.fromEntries(await Promise.all(order.map(async (caps) => [caps, await counts(caps)])));
        expect(found).toEqual({ undefined: 1, cidr: 3, disabled: 3, formats: 2, [ALL]: 6 });
      }
    });
  });
}
