// The id cache of ingest: bounded by account, and safe to forget while a batch uses it.
import { describe, expect, it } from "vitest";
import { ownerOf } from "../../../src/domain/core/actor.ts";
import { KnownIds } from "../../../src/domain/ingest/known-ids.ts";
import { Ledger } from "../../../src/fairness/ledger.ts";
import { cellOwner, type Owner } from "../../../src/fairness/owners.ts";
import type { Reader } from "../../../src/store/engine/tx.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { ingest } from "../../../src/domain/ingest/ingest.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";

const W = "01890a5d-ac96-774b-bcce-b302099a8057";
const none = () => ({ keys: new Set<string>(), projects: new Set<string>(), tenants: new Set<string>() });

/** A reader that finds every requested tenant. */
const everything: Reader = {
  dialect: "sqlite",
  all: async ({ sql, values }) =>
    (sql.includes('"tenants"') ? (JSON.parse(String(values[1])) as string[]).map((id) => ({ id })) : []) as never[],
  first: async () => undefined,
  firstMemoized: async () => undefined,
};

const live = cellOwner(W, "live", "ann");
const limits = { bound: 1_300, share: 600, shareOf: "account" } as const;

async function fill(ids: KnownIds, owner: Owner, count: number, name: string): Promise<void> {
  const tenants = new Set(Array.from({ length: count }, (_, i) => `${name}${i}`));
  await ids.resolve(everything, W, owner, ids.of(owner), { ...none(), tenants });
}

describe("known ids", () => {
  it("are forgotten at the share of their account and looked up again, those of others not", async () => {
    const ledger = new Ledger(limits);
    const ids = new KnownIds(ledger);
    const other = cellOwner("other", "live", "bob");
    await fill(ids, other, 512, "a");
    await fill(ids, live, 512, "a");
    expect(ids.of(live).tenants.has("a1")).toBe(true);
    await fill(ids, live, 512, "b");
    expect([ids.of(live).tenants.size, ids.of(other).tenants.size]).toEqual([0, 512]);
    for (let i = 0; i < 10; i++) await fill(ids, live, 128, `c${i}-`);
    expect([ids.of(live).tenants.size <= limits.share, ledger.used <= limits.bound]).toEqual([true, true]);
  });

  it("of test keys are forgotten before those of live keys of the account, and never for test keys", async () => {
    const ids = new KnownIds(new Ledger(limits));
    const test = cellOwner(W, "test", "ann");
    await fill(ids, test, 512, "a");
    await fill(ids, live, 256, "a");
    expect([ids.of(live).tenants.size, ids.of(test).tenants.size]).toEqual([256, 0]);
    await fill(ids, test, 512, "b");
    expect([ids.of(live).tenants.size, ids.of(test).tenants.size]).toEqual([256, 0]);
  });

  it("make room for a smaller account at the bound of all", async () => {
    const ids = new KnownIds(new Ledger(limits));
    const accounts = ["ann", "bob", "cleo"].map((name) => cellOwner(name, "live", name));
    for (const [i, count] of [256, 512, 256].entries()) await fill(ids, accounts[i] as Owner, count, "a");
    await fill(ids, accounts[2] as Owner, 256, "b");
    expect(accounts.map((owner) => ids.of(owner).tenants.size)).toEqual([256, 512, 512]);
    await fill(ids, accounts[0] as Owner, 256, "b");
    expect(accounts.map((owner) => ids.of(owner).tenants.size)).toContain(0);
  });

  it("are looked up in pieces, with a turn of the event loop between them", async () => {
    let [inTurn, most] = [0, 0];
    const counting: Reader = {
      ...everything,
      all: async (query) => {
        if (inTurn++ === 0) setImmediate(() => (inTurn = 0));
        most = Math.max(most, inTurn);
        return everything.all(query);
      },
    };
    const ids = new KnownIds(new Ledger(limits));
    const tenants = new Set(Array.from({ length: 5_000 }, (_, i) => `t${i}`));
    await ids.resolve(counting, W, live, ids.of(live), { ...none(), keys: new Set(tenants), tenants });
    expect(most).toBe(2); // one of keys, one of tenants
  });

  it("stay available to the batch that resolved them when the cache forgets them meanwhile", async () => {
    const ids = new KnownIds(new Ledger(limits));
    await fill(ids, live, 512, "a");
    const known = ids.of(live);
    await fill(ids, live, 512, "b");
    expect(ids.of(live)).not.toBe(known);
    await ids.resolve(everything, W, live, known, { ...none(), tenants: new Set(["late"]) });
    expect(["a1", "late"].every((id) => known.tenants.has(id))).toBe(true);
  });

  it.each(runBackends)("suffice for a batch that the cache forgets meanwhile, on %s", async (backend) => {
    await using fixture = await testServices(backend);
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
      return async () => ({ bytes: Buffer.from(JSON.stringify(value)) });
    };
    await ingest(ctx, batch("one", tenants.slice(0, 1)));
    const { knownIds } = fixture.services;
    // The next lookup, of the second tenant, finds the cache at the account's share.
    const resolve = knownIds.resolve.bind(knownIds);
    knownIds.resolve = async (...args) => {
      knownIds.resolve = resolve;
      const owner = ownerOf(ctx.actor);
      for (let i = 0; i < 100; i++) await fill(knownIds, owner, 512, `c${i}-`);
      await resolve(...args);
    };
    expect((await ingest(ctx, batch("two", tenants))).receipt.accepted).toBe(2);
  });
});
