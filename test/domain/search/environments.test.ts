// The search index by environment: however many keys of one it lacks, searches of the other neither wait nor pay, and
// a search without an environment waits for both.
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { newPolicyProject } from "../../../harness/instances/policy-feed.ts";
import { keyActor, testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import type { SecretKeyActor } from "../../../src/domain/core/actor.ts";
import type { Ctx } from "../../../src/domain/core/context.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { searchKeysWith } from "../../../src/domain/keys/included.ts";
import { indexChanges } from "../../../src/domain/search/search-index.ts";
import { searchTenants } from "../../../src/domain/search/tenants.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import type { Env } from "../../../src/kernel/credentials.ts";
import { SECOND_MS } from "../../../src/kernel/durations.ts";

const ROWS_AT_ONCE = 500;
const PAGE_KEYS = 50;
/** How long a search waits for the index. */
const WAIT_MS = 2 * SECOND_MS;

for (const backend of runBackends) {
  describe(`the search index of an environment on ${backend}`, () => {
    async function newWorld(fixture: TestServices) {
      const ctx = await vendorOf(fixture.services);
      const { workspace_id } = ctx.actor;
      const { project_id } = await newPolicyProject(ctx);
      const tenant_id = (await createTenant(ctx, { external_id: "customer" })).id;
      const tester: Ctx<SecretKeyActor> = { ...ctx, actor: keyActor(workspace_id, { id: ctx.actor.id, env: "test" }) };
      const mint = (env: Env, name: string) => createKey(ctx, { project_id, tenant_id, env, name });
      const find = async (as: Ctx<SecretKeyActor>, q: string, env?: Env): Promise<(string | null)[]> => {
        const page = await searchKeysWith(as, { q, env, include_revoked: false, limit: PAGE_KEYS });
        return page.parse().data.map(({ name }) => name);
      };
      const termsOf = async (env: Env): Promise<number> =>
        (await fixture.sql(`select 1 from search_terms where kind like '${env}.%'`)).length;
      const columns =
        "id, workspace_id, project_id, tenant_id, env, lookup_hash, display_prefix, name, scopes, meta, created_at, policy_version";
      /** Keys with the project's next versions, which nothing has indexed. */
      const addKeys = async (env: Env, count: number): Promise<void> => {
        const { version } = await ctx.services.feed.head(workspace_id, project_id);
        for (let from = 1; from <= count; from += ROWS_AT_ONCE) {
          const rows = Array.from({ length: ROWS_AT_ONCE }, (_, i) => {
            const id = `00000000-0000-4000-8000-${String(from + i).padStart(12, "0")}`;
            return `('${id}', '${workspace_id}', '${project_id}', '${tenant_id}', '${env}', 'h${from + i}', 'kr_${env}_aaaaaa', 'many', '[]', '{}', 1, ${version + from + i})`;
          });
          await fixture.sql(`insert into api_keys (${columns}) values ${rows.join(",")}`);
        }
        await fixture.sql(`update projects set policy_version = ${version + count} where id = '${project_id}'`);
      };
      /** Runs `before` ahead of each write that a cell of this environment pays for, until it is disposed. */
      const beforeWrites = (env: Env, before: () => Promise<void> | void) => {
        const { store } = fixture.services;
        const write = store.write.bind(store);
        return vi.spyOn(store, "write").mockImplementation(async (job) => {
          if (job.owner?.kind === "cell" && job.owner.env === env) await before();
          return write(job);
        });
      };
      return { ctx, tester, project_id, mint, find, termsOf, addKeys, beforeWrites };
    }

    it("is what a search waits for: test keys hold no search of live ones, and each that covers them", async () => {
      await using fixture = await testServices(backend);
      const { ctx, tester, mint, find, termsOf, beforeWrites } = await newWorld(fixture);
      await mint("live", "prod live");
      for (let i = 0; i < 3; i++) await mint("test", `prod test ${i}`);
      const [reached, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      expect(await find(ctx, "prod", "live")).toEqual(["prod live"]);
      using _ = beforeWrites("test", () => (reached.resolve(), free.promise));
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
      onTestFinished(() => void vi.useRealTimers());
      const both = find(ctx, "prod");
      await reached.promise;
      vi.advanceTimersByTime(WAIT_MS); // a slow write alone ends no wait
      vi.useRealTimers();
      const ofTest = find(tester, "prod");
      expect(await find(ctx, "prod", "live")).toEqual(["prod live"]);
      expect((await searchTenants(ctx, { q: "customer", limit: 5 })).parse().data).toHaveLength(1);
      expect([(await termsOf("live")) > 0, await termsOf("test")]).toEqual([true, 0]);
      free.resolve();
      const ofTests = ["prod test 0", "prod test 1", "prod test 2"];
      expect(new Set(await both)).toEqual(new Set(["prod live", ...ofTests]));
      expect(new Set(await ofTest)).toEqual(new Set(ofTests));
    });

    for (const env of ["test", "live"] as const) {
      it(`refuses searches that cover ${env} keys while very many of those are missing, and no others`, async () => {
        await using fixture = await testServices(backend);
        const { ctx, tester, mint, find, addKeys, beforeWrites } = await newWorld(fixture);
        const other = env === "test" ? "live" : "test";
        await mint(other, "many others");
        expect(await find(ctx, "many")).toEqual(["many others"]);
        await addKeys(env, ROWS_AT_ONCE);
        const confined = () => find(tester, "many");
        const [covering, apart] = [
          [() => find(ctx, "many"), () => find(ctx, "many", env)],
          [() => find(ctx, "many", other)],
        ];
        (env === "test" ? covering : apart).push(confined);
        {
          using write = beforeWrites(env, () => fixture.clock.advance(WAIT_MS));
          for (const search of covering) await expect(search()).rejects.toMatchObject({ failure: "search_indexing" });
          write.mockClear();
          for (const search of apart) expect(await search()).toEqual(["many others"]);
          expect(write).not.toHaveBeenCalled();
        }
        expect(await find(ctx, "many")).toHaveLength(PAGE_KEYS);
        expect(await find(ctx, "others")).toEqual(["many others"]);
      });
    }

    it("passes on why test keys could not be indexed", async () => {
      await using fixture = await testServices(backend);
      const { ctx, tester, mint, find, beforeWrites } = await newWorld(fixture);
      await mint("live", "prod live");
      await mint("test", "prod test");
      {
        using _ = beforeWrites("test", () => Promise.reject(new Error("the store failed")));
        await expect(find(ctx, "prod")).rejects.toThrow("the store failed");
        await expect(find(tester, "prod")).rejects.toThrow("the store failed");
        expect(await find(ctx, "prod", "live")).toEqual(["prod live"]);
      }
      expect(await find(ctx, "prod")).toHaveLength(2);
    });

    it("is paid by it: a search without an environment charges test keys to the test cell", async () => {
      await using fixture = await testServices(backend);
      const { ctx, mint, find } = await newWorld(fixture);
      await mint("live", "prod live");
      expect(await find(ctx, "prod")).toEqual(["prod live"]);
      await mint("test", "prod test");
      const write = vi.spyOn(fixture.services.store, "write");
      onTestFinished(() => write.mockRestore());
      expect(new Set(await find(ctx, "prod"))).toEqual(new Set(["prod live", "prod test"]));
      const owners = write.mock.calls.map(([{ owner }]) => owner?.id.split("/")[1]);
      expect(owners).toEqual(["test"]);
    });

    it("steps over any number of keys of the other one without writing them", async () => {
      await using fixture = await testServices(backend);
      const { ctx, tester, mint, find, termsOf, addKeys } = await newWorld(fixture);
      await mint("live", "first");
      await addKeys("test", 2_500);
      await using other = await fixture.another(); // it has no head from before
      const there = { ...ctx, services: other.services };
      const write = vi.spyOn(other.services.store, "write");
      expect(await find(there, "first", "live")).toEqual(["first"]);
      expect(write.mock.calls.length).toBeLessThan(5);
      expect(await termsOf("test")).toBe(0);
      write.mockRestore();
      await indexChanges(other.services);
      expect(await find({ ...tester, services: other.services }, "many")).toHaveLength(PAGE_KEYS);
    });
  });
}
