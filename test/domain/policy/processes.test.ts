// Polls in one process, changes in another, on one PostgreSQL: no poll sees an older version than one that was
// acknowledged before it came. Lost connections are in lost-connections.test.ts.
import { describe, expect, it, vi } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { changingProject } from "../../../harness/instances/policy-feed.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { ROUNDS } from "../../../harness/rounds.ts";
import { deleteNodes, nodesByKeys } from "../../../src/store/queries/nodes.ts";
import { record } from "../../../src/domain/core/record.ts";
import { policySnapshot } from "../../../src/domain/policy/policy.ts";

const NODE = { node_id: "n", env_scope: "live", caps: 0, full_power: false, sdk: null } as const;

describe.runIf(backends.includes("postgres"))("polls of another process", () => {
  it("see every change that was acknowledged before they came", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const p = await changingProject(fixture);
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
});

describe.runIf(backends.includes("postgres"))("a report that was written late", () => {
  /** A process that is paused with a report, while the node polls another process. */
  async function paused() {
    const fixture = await testServices("postgres");
    const other = await fixture.another();
    const p = await changingProject(fixture);
    const head = await fixture.services.feed.head(p.workspace_id, p.project_id);
    const [a, b] = [fixture.services, other.services];
    a.nodes.acknowledge(head, NODE, 0);
    await a.nodes.flushed();
    const goOn = Promise.withResolvers<void>();
    const write = a.store.write.bind(a.store);
    vi.spyOn(a.store, "write").mockImplementationOnce(async (job) => {
      await goOn.promise;
      return write(job);
    });
    const key = { project_id: p.project_id, node_id: NODE.node_id, env_scope: NODE.env_scope };
    const versions = async () => (await nodesByKeys(a.store.read, [key])).map(({ version }) => version);
    const dispose = async () => {
      await other[Symbol.asyncDispose]();
      await fixture[Symbol.asyncDispose]();
    };
    const { clock } = fixture;
    return { a, b, head, clock, goOn, versions, [Symbol.asyncDispose]: dispose };
  }

  it("does not replace what the node has acknowledged at another process, and is made again by its next poll", async () => {
    await using world = await paused();
    const { a, b, head, clock, goOn, versions } = world;
    a.nodes.acknowledge(head, NODE, 1);
    clock.advance(5_000);
    b.nodes.acknowledge(head, NODE, 2);
    await b.nodes.flushed();
    goOn.resolve();
    await a.nodes.flushed();
    expect(await versions()).toEqual([2]);
    a.nodes.acknowledge(head, NODE, 1);
    await a.nodes.flushed();
    expect(await versions()).toEqual([1]);
  });

  it("does not remove a node that has started again at another process", async () => {
    await using world = await paused();
    const { a, b, head, clock, goOn, versions } = world;
    a.nodes.leave(head, NODE);
    clock.advance(5_000);
    b.nodes.acknowledge(head, NODE, 2);
    await b.nodes.flushed();
    goOn.resolve();
    await a.nodes.flushed();
    expect(await versions()).toEqual([2]);
  });
});

describe.runIf(backends.includes("postgres"))("a node that leaves and starts again at another process", () => {
  async function world(fixture: TestServices, other: TestServices) {
    const p = await changingProject(fixture);
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

  it("gets its first snapshot when every process knows it", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const { a, b, head } = await world(fixture, other);
    const key = { project_id: head.project_id, node_id: "new", env_scope: NODE.env_scope };
    const ctx = { ...(await vendorOf(b)), services: b };
    const actor = { ...ctx.actor, workspace_id: head.workspace_id };
    const caller = { hasTag: () => false, sdk: null };
    await policySnapshot({ ...ctx, actor }, { project_id: head.project_id, env: "live", node: "new" }, caller);
    expect(await nodesByKeys(a.store.read, [key])).toHaveLength(1);
  });

  it("is registered by its first snapshot although the notice was lost", async () => {
    await using fixture = await testServices("postgres");
    await using other = await fixture.another();
    const { a, b, head, key, isRegistered } = await world(fixture, other);
    await record(a, (tx) => deleteNodes(tx, [key]));
    b.nodes.noteSeen(head, NODE);
    await b.nodes.flushed();
    expect(await isRegistered()).toBe(true);
  });
});
