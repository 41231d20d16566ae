// Receipts: how many calls wait for nodes, which acknowledgements wake them, and that none forgets a node that this
// process has seen.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { newPolicyProject as newProject, ONCE, policyNode } from "../../../harness/instances/policy-feed.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { turns, until } from "../../../harness/waiting.ts";
import type { ApiKeyActor } from "../../../src/domain/core/actor.ts";
import type { Ctx, Services } from "../../../src/domain/core/context.ts";
import { NEVER_DISCONNECTS } from "../../../src/domain/core/subscription.ts";
import {
  awaitProjects,
  awaitPropagation,
  awaitKeyChange,
  type KeyChange,
  showPropagation,
} from "../../../src/domain/nodes/propagation.ts";
import { cellOwner } from "../../../src/fairness/owners.ts";
import { HOUR_MS } from "../../../src/kernel/durations.ts";

const MIB = 1024 * 1024;
/** A revocation then waits for as long as the test needs. */
const patient = (services: Services): Services => ({
  ...services,
  settings: { ...services.settings, revoke_wait_ms: HOUR_MS },
});
const MAX = 100;

for (const backend of runBackends) {
  describe(`a receipt on ${backend}`, () => {
    let fixture: TestServices;
    beforeAll(async () => {
      fixture = await testServices(backend, {
        flags: { nodes_max: String(MAX), writes_mb_per_day: "8", throttle: "on" },
      });
    });
    afterAll(() => fixture[Symbol.asyncDispose]());

    it("counts a node whose report is not written yet", async () => {
      const { services, head, receipt } = await newProject(await vendorOf(fixture.services));
      services.nodes.noteSeen(head, policyNode("starting"));
      expect(await receipt()).toMatchObject({ complete: false, acked_nodes: 0, total_nodes: 1 });
      services.nodes.acknowledge(head, policyNode("starting"), 1);
      expect(await receipt()).toMatchObject({ complete: true, acked_nodes: 1, total_nodes: 1 });
    });

    it("counts a node that polls again before its leave is written", async () => {
      const { services, head, receipt } = await newProject(await vendorOf(fixture.services));
      services.nodes.acknowledge(head, policyNode("restarted"), 0);
      await services.nodes.flushed();
      services.nodes.acknowledge(head, policyNode("written first"), 1);
      services.nodes.leave(head, policyNode("restarted"));
      services.nodes.acknowledge(head, policyNode("restarted"), 0);
      expect(await receipt()).toMatchObject({ complete: false, total_nodes: 2 });
      services.nodes.leave(head, policyNode("restarted"));
      expect(await receipt()).toMatchObject({ complete: true, total_nodes: 1 });
    });

    it("is not complete while the report of a new node was dropped at the bound", async () => {
      const ctx = await vendorOf(fixture.services);
      const [crowded, quiet] = [await newProject(ctx), await newProject(ctx)];
      const { nodes } = fixture.services;
      await nodes.flushed();
      for (let i = 0; i <= MAX; i++) nodes.acknowledge(crowded.head, policyNode(`n${i}`), 1); // the first is being written
      nodes.acknowledge(quiet.head, policyNode("dropped"), 0);
      expect(nodes.dropped).toBe(1);
      expect(await quiet.receipt()).toMatchObject({ complete: false, total_nodes: 0, unregistered_nodes: 1 });
      await nodes.flushed();
      nodes.acknowledge(crowded.head, policyNode("n0"), 0); // the next batch stores it
      await nodes.flushed();
      await using other = await fixture.another();
      const elsewhere = await newProject(await vendorOf(fixture.services));
      expect(await elsewhere.receipt()).toMatchObject({ complete: true });
      const awaited = { project_id: quiet.project_id, version: 1, env: "live", needs: 0 } as const;
      expect(await awaitPropagation({ ...ctx, services: other.services }, awaited, ONCE)).toMatchObject({
        complete: false,
        unregistered_nodes: 1,
      });
    });

    it("of several projects is one wait, woken by a node of any of them, and none where all have it", async () => {
      const ctx = await vendorOf(fixture.services);
      const { nodes, waitingReceipts, store } = fixture.services;
      const projects = [await newProject(ctx), await newProject(ctx), await newProject(ctx)];
      const ids = projects.map(({ project_id }) => project_id);
      const report = async (name: string, version: number): Promise<void> => {
        for (const { head } of projects) nodes.acknowledge(head, policyNode(name), version);
        await nodes.flushed();
      };
      await report("a", 1);
      await report("b", 0);
      const first = vi.spyOn(store.read, "first");
      const receipt = awaitProjects(ctx, ids, 0);
      await until(() => waitingReceipts.size > 0);
      await turns(20);
      expect(waitingReceipts.size).toBe(1);
      if (backend === "sqlite") expect(first.mock.calls.filter(([{ sql }]) => sql.includes("lagging"))).toHaveLength(1);
      first.mockRestore();
      await report("b", 1);
      const shown = await receipt;
      expect(shown).toMatchObject({ complete: true, acked_nodes: 6, total_nodes: 6 });
      expect(shown.projects.map(({ project_id, nodes: listed }) => [project_id, listed.length])).toEqual(
        ids.toSorted().map((id) => [id, 2]),
      );
      expect(await awaitProjects(ctx, ids, 0)).toMatchObject({ complete: true, acked_nodes: 6 });
      expect(waitingReceipts.size).toBe(0);
    });

    it("is not complete while the report of a new node could not be written", async () => {
      const { services, head, receipt } = await newProject(await vendorOf(fixture.services));
      vi.spyOn(services.store, "write").mockRejectedValueOnce(new Error("down"));
      services.nodes.acknowledge(head, policyNode("lost"), 0);
      expect(await receipt()).toMatchObject({ complete: false, unregistered_nodes: 1 });
      fixture.clock.advance(121_000);
      expect(await receipt()).toMatchObject({ complete: true, total_nodes: 0 });
    });

    it("does not wait for a write that does not end, and is not complete then", async () => {
      const ctx = await vendorOf(fixture.services);
      const { services, head, receipt } = await newProject(ctx);
      const [neighbour, ownTest] = [await newProject(await vendorOf(services)), await newProject(ctx)];
      await services.nodes.flushed();
      const stuck = Promise.withResolvers<never>();
      vi.spyOn(services.store, "write").mockReturnValueOnce(stuck.promise);
      services.nodes.acknowledge(head, policyNode("waiting"), 0);
      services.nodes.acknowledge(neighbour.head, policyNode("n"), 1);
      services.nodes.acknowledge(ownTest.head, policyNode("t", "test"), 1);
      expect(await ownTest.receipt()).toMatchObject({ complete: true, total_nodes: 0 }); // it needs none of them
      expect(await receipt()).toMatchObject({ complete: false, total_nodes: 0, unregistered_nodes: 1 });
      stuck.reject(new Error("down"));
      await services.nodes.flushed();
    });

    it("is not complete while a node is not registered because its owner has used up its disk space", async () => {
      const { services, head, receipt } = await newProject(await vendorOf(fixture.services));
      const owner = cellOwner(head.workspace_id, "live");
      const used = (): number => services.shares.of("disk").usedBy(owner);
      services.nodes.acknowledge(head, policyNode("first"), 0);
      await services.nodes.flushed();
      const before = used();
      services.nodes.acknowledge(head, policyNode("known"), 0);
      await services.nodes.flushed();
      const bytes = used() - before;
      expect([bytes > 200, bytes < 500]).toEqual([true, true]);
      services.writtenBytes.add(owner, 8 * MIB);
      const full = used();
      services.nodes.acknowledge(head, policyNode("newcomer"), 1);
      services.nodes.acknowledge(head, policyNode("first"), 1);
      services.nodes.acknowledge(head, policyNode("known"), 1);
      expect(await receipt()).toMatchObject({ complete: false, total_nodes: 2, acked_nodes: 2, unregistered_nodes: 1 });
      expect(used()).toBe(full);
    });
  });
}

describe("calls that wait for nodes", () => {
  let fixture: TestServices;
  beforeAll(async () => {
    fixture = await testServices("sqlite");
  });
  afterAll(() => fixture[Symbol.asyncDispose]());

  it("are a hundred in a process: one more answers at once, a smaller owner's evicts the largest's oldest", async () => {
    const busy = await newProject(await vendorOf(fixture.services));
    const neighbour = await newProject(await vendorOf(fixture.services));
    const { nodes, waitingReceipts, shares } = fixture.services;
    for (const { head } of [busy, neighbour]) nodes.acknowledge(head, policyNode("behind"), 0);
    await nodes.flushed();
    const answered: number[] = [];
    const call = ({ ctx, project_id }: typeof busy, name: number) => {
      const query = { project_id, version: 1, wait_ms: HOUR_MS };
      return showPropagation(ctx, query, NEVER_DISCONNECTS).finally(() => answered.push(name));
    };
    const calls = Array.from({ length: MAX }, (_, i) => call(busy, i));
    await until(() => waitingReceipts.size === MAX);
    expect(shares.of("polls").used).toBe(0);
    expect(await call(busy, MAX)).toMatchObject({ complete: false, total_nodes: 1 });
    calls.push(call(neighbour, MAX + 1));
    expect(await calls[0]).toMatchObject({ complete: false, total_nodes: 1 });
    expect(answered).toEqual([MAX, 0]);
    expect(waitingReceipts.size).toBe(MAX);
    const revoked = { project_id: busy.project_id, version: 1, key: { env: "live" }, needs: 0 } as KeyChange;
    expect(await awaitKeyChange(busy.ctx, revoked)).toMatchObject({ complete: false, total_nodes: 1 });
    nodes.acknowledge(busy.head, policyNode("behind"), 1);
    nodes.acknowledge(neighbour.head, policyNode("behind"), 1);
    const shown = await Promise.all(calls.slice(1));
    expect(shown.every(({ complete }) => complete)).toBe(true);
    expect(shares.of("receipts").used).toBe(0);
  });

  it("end no earlier wait of their own cell: a revocation waits on, however many calls follow", async () => {
    const { ctx, head, project_id } = await newProject(await vendorOf(fixture.services));
    const { nodes, waitingReceipts, shares } = fixture.services;
    nodes.acknowledge(head, policyNode("behind"), 0);
    await nodes.flushed();
    const query = { project_id, version: 1, wait_ms: HOUR_MS };
    const revoked = { project_id, version: 1, key: { env: "live" }, needs: 0 } as KeyChange;
    const waits = [awaitKeyChange({ ...ctx, services: patient(ctx.services) }, revoked)];
    await until(() => waitingReceipts.size === 1);
    waits.push(...Array.from({ length: MAX - 1 }, () => showPropagation(ctx, query, NEVER_DISCONNECTS)));
    await until(() => waitingReceipts.size === MAX);
    for (let i = 0; i < 10; i++)
      expect(await showPropagation(ctx, query, NEVER_DISCONNECTS)).toMatchObject({ complete: false });
    expect(waitingReceipts.size).toBe(MAX);
    nodes.acknowledge(head, policyNode("behind"), 1);
    expect((await Promise.all(waits)).every(({ complete }) => complete)).toBe(true);
    expect(shares.of("receipts").used).toBe(0);
  });

  it("of customers' keys take no place of the vendor's", async () => {
    const { ctx, head, project_id } = await newProject(await vendorOf(fixture.services));
    const { nodes, waitingHolders, waitingReceipts, readSlots } = fixture.services;
    nodes.acknowledge(head, policyNode("behind"), 0);
    await nodes.flushed();
    const revoked = { project_id, version: 1, key: { env: "live" }, needs: 0 } as KeyChange;
    const holder = (tenant_id: string): Ctx<ApiKeyActor> => {
      const { workspace_id } = ctx.actor;
      const key = { id: "k", workspace_id, project_id, tenant_id, env: "live" as const, address: null, refused: null };
      return { services: patient(ctx.services), actor: { kind: "api_key", ...key } };
    };
    const waits = Array.from({ length: MAX }, () => awaitKeyChange(holder("greedy"), revoked));
    await until(() => waitingHolders.size === MAX);
    expect(await awaitKeyChange(holder("greedy"), revoked)).toMatchObject({ complete: false });
    waits.push(awaitKeyChange(holder("other"), revoked));
    expect(await waits[0]).toMatchObject({ complete: false }); // evicted
    const own = awaitKeyChange({ ...ctx, services: patient(ctx.services) }, revoked);
    await until(() => waitingReceipts.size === 1);
    const owners = vi.spyOn(readSlots.fleet, "run");
    nodes.acknowledge(head, policyNode("behind"), 1);
    expect(await own).toMatchObject({ complete: true });
    expect((await Promise.all(waits.slice(1))).every(({ complete }) => complete)).toBe(true);
    // Each customer reads in slots of its own too.
    const ids = owners.mock.calls.map(([owner]) => owner.id.slice(owner.id.indexOf("/") + 1));
    expect(new Set(ids)).toEqual(new Set(["live", "live/greedy", "live/other"]));
    owners.mockRestore();
  });

  it("are notified of reports of their own project only, and in slices", async () => {
    const ctx = await vendorOf(fixture.services);
    const [own, other] = [await newProject(ctx), await newProject(ctx)];
    const { nodes } = fixture.services;
    let notified = 0;
    const listeners = Array.from({ length: 200 }, () => nodes.onWritten(own.project_id, () => void notified++));
    nodes.acknowledge(other.head, policyNode("n"), 1);
    await nodes.flushed();
    expect(notified).toBe(0);
    nodes.acknowledge(own.head, policyNode("n"), 1);
    let [before, most] = [0, 0];
    while (notified < listeners.length) {
      await turns();
      most = Math.max(most, notified - before);
      before = notified;
    }
    expect(most).toBeLessThan(100);
    for (const unregister of listeners) unregister();
  });
});

describe("a report of a node", () => {
  it("is written in the next batch, however many of another owner wait", async () => {
    await using fixture = await testServices("sqlite");
    const busy = await newProject(await vendorOf(fixture.services));
    const quiet = await newProject(await vendorOf(fixture.services));
    const { nodes } = fixture.services;
    for (let i = 0; i < 3_000; i++) nodes.acknowledge(busy.head, policyNode(`n${i}`), 1);
    const order: string[] = [];
    nodes.onWritten(quiet.project_id, () => order.push("quiet"));
    nodes.onWritten(busy.project_id, () => order.push("busy"));
    nodes.acknowledge(quiet.head, policyNode("n"), 1);
    await nodes.flushed();
    // The first report of all was written alone.
    expect([order.indexOf("quiet") <= 2, order.length > 5]).toEqual([true, true]);
  });
});

describe("a node", () => {
  it("that polls stays live, however short the time is after which it is not", async () => {
    await using fixture = await testServices("sqlite", { flags: { node_live_ms: "1000" } });
    const { services, head, receipt } = await newProject(await vendorOf(fixture.services));
    for (let i = 0; i < 8; i++) {
      services.nodes.acknowledge(head, policyNode("n"), 0);
      fixture.clock.advance(300);
      expect(await receipt()).toMatchObject({ complete: false, total_nodes: 1 });
    }
  });

  it("is charged to the account that created its workspace", async () => {
    await using fixture = await testServices("sqlite");
    const { services, head } = await newProject(await vendorOf(fixture.services));
    services.nodes.acknowledge(head, { ...policyNode("n", "test"), account_id: "founder" }, 1);
    await services.nodes.flushed();
    const [known] = services.shares.of("known_nodes").owners();
    expect(known).toMatchObject({ used: 1, owner: { group: "founder", evictedFirst: true } });
  });
});
