// Polls in one process, changes in another, on one PostgreSQL: no poll sees an older version than one that was acknowledged
// before it came, with notices and without them.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { tcpProxy } from "../../../harness/databases/commit-proxy.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { ROUNDS } from "../../../harness/rounds.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { deleteNodes, nodesByKeys } from "../../../src/store/queries/nodes.ts";
import { record } from "../../../src/domain/core/record.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { NEVER_DISCONNECTS } from "../../../src/domain/core/subscription.ts";
import { cellOwner } from "../../../src/fairness/owners.ts";

const HOUR = 3_600_000;

/** A project of the first process, a key of which is created by each call of `change`. */
async function project({ services }: TestServices) {
  const ctx = await vendorOf(services);
  const { id: project_id } = await createProject(ctx, { name: "p", slug: "p" });
  const { id: tenant_id } = await createTenant(ctx, { external_id: "t" });
  const change = async (): Promise<void> => void (await createKey(ctx, { project_id, tenant_id, env: "live" }));
  const { workspace_id } = ctx.actor;
  return { project_id, workspace_id, owner: cellOwner(workspace_id, "live"), change };
}

describe.runIf(backends.includes("postgres"))("polls of another process", () => {
  it("see every change that was acknowledged before they came", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const p = await project(fixture);
    const { feed } = other.services;
    let version = 1;
    for (let i = 0; i < ROUNDS; i++) {
      const crowd = Array.from({ length: 20 }, async () => feed.head(p.workspace_id, p.project_id));
      await p.change();
      version++;
      expect((await feed.head(p.workspace_id, p.project_id)).version).toBe(version);
      await Promise.all(crowd);
    }
    expect(feed.headReads).toBeLessThan(ROUNDS * 5); // a crowd of 20 shares its reads
  });

  it("are woken by a change although the listening connection is dead, which is then replaced", async () => {
    await using fixture = await testServices("postgres");
    if (fixture.target.kind !== "postgres") throw new Error("this is about PostgreSQL");
    const { hostname, port } = new URL(fixture.target.url);
    await using proxy = await tcpProxy(hostname, Number(port || 5432));
    await using other = await fixture.another({ ...fixture.target, url: proxy.url(fixture.target.url) });
    const p = await project(fixture);
    const { feed, store } = other.services;
    const resync = new Promise((resolve) => store.onNotice("resync", resolve));
    const subscription = feed.subscribe(p.owner, { project_id: p.project_id, version: 1 }, HOUR, NEVER_DISCONNECTS)!;
    proxy.swallowListeners();
    await p.change();
    expect(await subscription.changed()).toMatchObject({ version: 2 });
    expect(feed.noticesMissed).toBe(1);
    await resync;
    const changes = new Promise((resolve) => store.onPolicyChange(resolve));
    await p.change();
    expect(await changes).toEqual([{ project_id: p.project_id, version: 3 }]);
    subscription.close();
    feed.stop();
  });
});

const NODE = { node_id: "n", env_scope: "live", caps: 0, full_power: false, sdk: null } as const;

describe.runIf(backends.includes("postgres"))("a node that leaves and starts again at another process", () => {
  async function world(fixture: TestServices, other: TestServices) {
    const p = await project(fixture);
    const head = await fixture.services.feed.head(p.workspace_id, p.project_id);
    const [a, b] = [fixture.services, other.services];
    const key = { project_id: p.project_id, node_id: NODE.node_id, env_scope: NODE.env_scope };
    b.nodes.acknowledge(head, NODE, head.version);
    await b.nodes.flushed();
    return { a, b, head, key, isRegistered: async () => (await nodesByKeys(a.store.read, [key])).length === 1 };
  }

  it("is registered by its first poll", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const { a, b, head, isRegistered } = await world(fixture, other);
    expect(await isRegistered()).toBe(true);
    const noticed = new Promise((resolve) => b.store.onNotice("node", resolve));
    a.nodes.leave(head, NODE);
    await a.nodes.flushed();
    expect(await isRegistered()).toBe(false);
    await noticed;
    b.nodes.acknowledge(head, NODE, head.version);
    await b.nodes.flushed();
    expect(await isRegistered()).toBe(true);
  });

  it("is registered by its first snapshot although the notice was lost", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const { a, b, head, key, isRegistered } = await world(fixture, other);
    await record(a, (tx) => deleteNodes(tx, [key]));
    b.nodes.seen(head, NODE);
    await b.nodes.flushed();
    expect(await isRegistered()).toBe(true);
  });
});
