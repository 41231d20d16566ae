// Lists of keys in a large workspace: the same keys whether the main thread or another one reads them.
import { beforeAll, describe, expect, it, vi } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { until } from "../../../harness/waiting.ts";
import { sharedServices, START, vendorOf } from "../../../harness/instances/test-services.ts";
import { listKeys } from "../../../src/domain/keys/keys.ts";
import { listEmbedKeys } from "../../../src/domain/embed/embed.ts";
import { billing, tenantActivity } from "../../../src/domain/usage/usage.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import type { Ctx } from "../../../src/domain/core/context.ts";
import type { Vendor } from "../../../src/domain/core/actor.ts";

const KEYS = 1_300;
const id = (i: number) => `01900000-0000-7000-8000-${String(i).padStart(12, "0")}`;

type Made = { id: string; project_id: string; tenant_id: string; env: string; revoked: boolean };

for (const backend of backends) {
  describe(`lists of keys on ${backend}`, () => {
    const shared = sharedServices(backend);
    let ctx: Ctx<Vendor>;
    let made: Made[];
    let projects: [string, string];
    let tenants: [string, string];
    beforeAll(async () => {
      const fixture = shared();
      ctx = await vendorOf(fixture.services);
      const [big, small] = [
        await createProject(ctx, { name: "big", slug: "big" }),
        await createProject(ctx, { name: "small", slug: "small" }),
      ];
      const [one, two] = [
        await createTenant(ctx, { external_id: "one" }),
        await createTenant(ctx, { external_id: "two" }),
      ];
      projects = [big.id, small.id];
      tenants = [one.id, two.id];
      // The oldest ten are of the small project; the second tenant's newer keys are all revoked.
      made = Array.from({ length: KEYS }, (_, i) => ({
        id: id(i),
        project_id: i < 10 ? small.id : big.id,
        tenant_id: i % 13 === 0 || i >= 20 ? two.id : one.id,
        env: i % 7 === 0 && i < 100 ? "test" : "live",
        revoked: i >= 20,
      }));
      for (let at = 0; at < KEYS; at += 100)
        await fixture.sql(
          `insert into api_keys (id, workspace_id, project_id, tenant_id, env, lookup_hash, display_prefix, created_at,
              policy_version, revoked_at) values ${made
                .slice(at, at + 100)
                .map((key, i) => {
                  const created_at = START + Math.floor((at + i) / 3);
                  const texts = [
                    key.id,
                    ctx.actor.workspace_id,
                    key.project_id,
                    key.tenant_id,
                    key.env,
                    key.id,
                    "kr_live_",
                  ];
                  return `(${texts.map((text) => `'${text}'`).join()}, ${created_at}, 1, ${key.revoked ? START : null})`;
                })
                .join()}`,
        );
    });

    const wanted = (matches: (key: Made) => boolean) =>
      made
        .filter(matches)
        .map((key) => key.id)
        .toReversed();

    /** Every page, and how many of them were read in a thread. */
    const pages = async (query: Partial<Parameters<typeof listKeys>[1]>, limit = 4) => {
      const threads = vi.spyOn(ctx.services.store, "readOnThread");
      const found: string[] = [];
      let has_more: boolean | undefined = true;
      for (let after: string | undefined; has_more; after = found.at(-1)) {
        const page = (await listKeys(ctx, { include_revoked: false, limit, after, ...query })).parse();
        expect(page.data.length).toBe(page.has_more ? limit : page.data.length);
        found.push(...page.data.map((key) => key.id));
        ({ has_more } = page);
      }
      const { length } = threads.mock.calls;
      threads.mockRestore();
      return { found, threads: length };
    };

    it("examine many keys in a thread, and miss and repeat none", async () => {
      const small = await pages({ project_id: projects[1] });
      expect(small.found).toEqual(wanted(({ project_id, revoked }) => project_id === projects[1] && !revoked));
      expect(small.threads).toBeGreaterThan(0);
      const tenant = await pages({ tenant_id: tenants[1] });
      expect(tenant.found).toEqual(wanted(({ tenant_id, revoked }) => tenant_id === tenants[1] && !revoked));
      expect(tenant.threads).toBeGreaterThan(0);
      const unrevoked = await pages({});
      expect(unrevoked.found).toEqual(wanted(({ revoked }) => !revoked));
      expect(unrevoked.threads).toBeGreaterThan(0);
      const test = await pages({ env: "test", include_revoked: true });
      expect(test.found).toEqual(wanted(({ env }) => env === "test"));
    });

    it("are read at once where an index has the filter, or the first keys fill the page", async () => {
      const all = await pages({ include_revoked: true }, 200);
      expect([all.found.length, all.threads]).toEqual([KEYS, 0]);
      const live = await pages({ env: "live" });
      expect(live.found).toEqual(wanted(({ env, revoked }) => env === "live" && !revoked));
      expect(live.threads).toBe(0);
      const threads = vi.spyOn(ctx.services.store, "readOnThread");
      const dense = await listKeys(ctx, { project_id: projects[0], include_revoked: true, limit: 50 });
      expect(dense.parse().data.map((key) => key.id)).toEqual(wanted(() => true).slice(0, 50));
      expect(threads).not.toHaveBeenCalled();
      threads.mockRestore();
    });

    it("of the portal show the tenant's keys only", async () => {
      const { workspace_id } = ctx.actor;
      for (const tenant of tenants) {
        const actor = { kind: "embed_token", workspace_id, project_id: projects[1], tenant_id: tenant, env: "live" };
        const list = await listEmbedKeys({ ...ctx, actor } as never, { include_revoked: false, limit: 100 });
        const own = wanted(
          ({ project_id, tenant_id, env }) => project_id === projects[1] && tenant_id === tenant && env === "live",
        );
        expect(list.parse().data.map((key) => key.id)).toEqual(own);
      }
    });

    it("of the portal leave the vendor's slots free", async () => {
      const { workspace_id } = ctx.actor;
      const actor = { kind: "embed_token", workspace_id, project_id: projects[0], tenant_id: tenants[1], env: "live" };
      const { promise: held, resolve: release } = Promise.withResolvers<never[]>();
      const threads = vi.spyOn(ctx.services.store, "readOnThread").mockReturnValue(held);
      const query = { include_revoked: false, limit: 100 };
      const lists = Array.from({ length: 4 }, () => listEmbedKeys({ ...ctx, actor } as never, query));
      await until(() => threads.mock.calls.length === 2);
      const reports = [billing(ctx, 1), billing(ctx, 1)];
      await until(() => threads.mock.calls.length === 4);
      release([]);
      expect((await Promise.all(lists)).map((list) => list.parse().data.length)).toEqual([0, 0, 0, 0]);
      await Promise.all(reports);
      threads.mockRestore();
    });

    it("leave reports of usage to a thread", async () => {
      const threads = vi.spyOn(ctx.services.store, "readOnThread");
      expect((await billing(ctx, 3)).data.map(({ active_tenants }) => active_tenants)).toEqual([0, 0, 0]);
      expect((await tenantActivity(ctx, { months: 1, limit: 10 })).data).toEqual([]);
      expect(threads).toHaveBeenCalledTimes(2);
      threads.mockRestore();
    });
  });
}
