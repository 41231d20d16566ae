// The id cache of ingest: bounded, and safe to clear while a batch uses it.
import { describe, expect, it } from "vitest";
import { KnownIds } from "../../../src/domain/usage/known-ids.ts";
import type { Reader } from "../../../src/store/engine/statement.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { ingest } from "../../../src/domain/usage/ingest.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";

const W = "01890a5d-ac96-774b-bcce-b302099a8057";
const none = () => ({ keys: new Set<string>(), projects: new Set<string>(), tenants: new Set<string>() });

/** A reader that finds every requested tenant. */
const everything: Reader = {
  dialect: "sqlite",
  all: async ({ sql, values }) => (sql.includes('"tenants"') ? values.slice(1).map((id) => ({ id })) : []) as never[],
  first: async () => undefined,
  firstMemoized: async () => undefined,
};

async function fill(ids: KnownIds, count: number, name: string): Promise<void> {
  const tenants = new Set(Array.from({ length: count }, (_, i) => `${name}${i}`));
  await ids.resolve(everything, W, ids.of(W), { ...none(), tenants });
}

describe("known ids", () => {
  it("are cleared at their limit and looked up again", async () => {
    const ids = new KnownIds();
    await fill(ids, 512, "a");
    expect(ids.of(W).tenants.has("a1")).toBe(true);
    for (let i = 0; i < 100; i++) await fill(ids, 512, `b${i}-`);
    expect(ids.of(W).tenants.has("a1")).toBe(false);
    expect(ids.of(W).tenants.size).toBeLessThan(50_000);
  });

  it("stay available to the batch that resolved them when the cache is cleared meanwhile", async () => {
    const ids = new KnownIds();
    await fill(ids, 512, "a");
    const known = ids.of(W);
    for (let i = 0; i < 100; i++) await fill(ids, 512, `b${i}-`);
    await ids.resolve(everything, W, known, { ...none(), tenants: new Set(["late"]) });
    expect(["a1", "late"].every((id) => known.tenants.has(id))).toBe(true);
  });

  it.each(backends)("suffice for a batch during which the cache is cleared, on %s", async (back) => {
    await using fixture = await testServices(back);
    const ctx = await vendorOf(fixture.services);
    const project = await createProject(ctx, { name: "Api", slug: "api" });
    const tenants = await Promise.all(["a", "b"].map((external_id) => createTenant(ctx, { external_id })));
    const ts = new Date(fixture.services.clock.now()).toISOString();
    const event = { ts, project_id: project.id, env: "live", method: "GET", path: "/", route: null, status: 200 };
    const batch = (tag: string, of: typeof tenants) => {
      const events = of.map(({ id }) => ({
        ...event,
        tenant_id: id,
        duration_ms: 1,
        degraded: false,
        request_id: `${tag}${id}`,
      }));
      const sdk = { name: "t", version: "1" };
      const value = { object: "ingest_batch", protocol_version: 1, node_id: "n", sdk, events };
      return async () => Buffer.from(JSON.stringify(value));
    };
    await ingest(ctx, batch("one", tenants.slice(0, 1)));
    const { knownIds } = fixture.services;
    // The next lookup, of the second tenant, overflows the cache and clears it.
    const resolve = knownIds.resolve.bind(knownIds);
    knownIds.resolve = async (...args) => {
      knownIds.resolve = resolve;
      for (let i = 0; i < 100; i++) await fill(knownIds, 512, `c${i}-`);
      await resolve(...args);
    };
    expect((await ingest(ctx, batch("two", tenants))).receipt.accepted).toBe(2);
  });
});
