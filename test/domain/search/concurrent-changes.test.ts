// Keys that another process changes while they are being indexed. On SQLite one writer excludes the others.
import { describe, expect, it, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { newPolicyProject } from "../../../harness/instances/policy-feed.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { searchKeysWith } from "../../../src/domain/keys/included.ts";
import { indexChanges } from "../../../src/domain/search/search-index.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import type { Query, Tx } from "../../../src/store/engine/tx.ts";

/** The transaction, with a call of `then` after the first statement that reads this. */
function afterRead(tx: Tx, text: string, then: () => Promise<unknown>): Tx {
  const all = async (query: Query): Promise<unknown[]> => {
    const rows = await tx.all(query);
    if (query.sql.includes(text)) await then();
    return rows;
  };
  return new Proxy(tx, {
    get: (target, name) => {
      const value: unknown = name === "all" ? all : Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

describe.runIf(runBackends.includes("postgres"))("the search index on postgres", () => {
  it("skips no key whose version is between those of one that is changed while it is read", async () => {
    await using fixture = await testServices("postgres");
    const { store } = fixture.services;
    const ctx = await vendorOf(fixture.services);
    const { workspace_id } = ctx.actor;
    const { project_id } = await newPolicyProject(ctx);
    const tenant_id = (await createTenant(ctx, { external_id: "customer" })).id;
    const mint = (name: string) => createKey(ctx, { project_id, tenant_id, env: "live", name });
    const [between, changed] = [await mint("one"), await mint("two")];
    await indexChanges(fixture.services);
    const { version } = await ctx.services.feed.head(workspace_id, project_id);
    const change = async (id: string, name: string, after: number): Promise<void> => {
      const policy_version = version + after;
      await fixture.sql(`update api_keys set name = '${name}', policy_version = ${policy_version} where id = '${id}'`);
      await fixture.sql(`update projects set policy_version = ${policy_version} where id = '${project_id}'`);
    };
    await change(changed.id, "first", 1);
    let reads = 0;
    const other = async (): Promise<void> => {
      if (reads++ > 0) return;
      await change(between.id, "between", 2);
      await change(changed.id, "second", 3);
    };
    const write = store.write.bind(store);
    const spy = vi.spyOn(store, "write").mockImplementation((job) => {
      const work: typeof job.work = (tx) => job.work(afterRead(tx, `select "id", "policy_version" from`, other));
      return write({ ...job, work });
    });
    await indexChanges(fixture.services);
    spy.mockRestore();
    expect(reads).toBeGreaterThan(0);
    const found = async (q: string): Promise<unknown[]> => {
      const page = await searchKeysWith(ctx, { q, env: "live", include_revoked: false, limit: 5 });
      return page.parse().data.map(({ name }) => name);
    };
    expect([await found("second"), await found("between")]).toEqual([["second"], ["between"]]);
  });
});
