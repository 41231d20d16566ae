// A node gets its first policy once receipts of every process count it, also where the write of its row stalls or fails.
// A node that holds a policy always gets the newest one.
import { describe, expect, it, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { ONCE } from "../../../harness/instances/policy-feed.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { DEADLINE_MS, until } from "../../../harness/waiting.ts";
import { NEVER_DISCONNECTS } from "../../../src/domain/core/subscription.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { fail } from "../../../src/kernel/errors.ts";
import { awaitPropagation } from "../../../src/domain/nodes/propagation.ts";
import { policyDelta, policySnapshot, type FeedResponse } from "../../../src/domain/policy/policy.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";

const CALLER = { hasTag: () => false, sdk: null };
const NO_WAIT = { wait_ms: 0, leaving: "false" } as const;
/** How long a node waits for its row: until it is written, and not for long while no row is. */
const [LONG_MS, SHORT_MS] = [DEADLINE_MS, 50];
const REFUSED = { status: 503, code: "unavailable" };

/** The response to the last of several calls, as a node gets it that retries. */
async function retried<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      expect(error).toMatchObject(REFUSED);
    }
  }
}

/** A project with a key, and nodes that poll the second of two processes. */
async function twoProcesses(fixture: TestServices, other: TestServices) {
  const here = await vendorOf(fixture.services);
  const ctx = { ...here, services: other.services };
  const { id: project_id } = await createProject(here, { name: "P", slug: "p" });
  const { id: tenant_id } = await createTenant(here, { external_id: "t" });
  const change = () => createKey(here, { project_id, tenant_id, env: "live" });
  await change();
  const { feed, nodes, store } = other.services;
  nodes.registerMs = LONG_MS;
  const version = async (): Promise<number> => (await feed.head(here.actor.workspace_id, project_id)).version;
  const query = (node: string) => ({ project_id, env: "live", node }) as const;
  const snapshot = (node: string, page: { max_keys?: number; cursor?: string } = {}) =>
    policySnapshot(ctx, { ...query(node), ...page }, CALLER);
  const poll = async (node: string, since?: number) =>
    policyDelta(ctx, { ...query(node), since: since ?? (await version()), ...NO_WAIT }, CALLER, NEVER_DISCONNECTS);
  /** By the process that the nodes do not poll. */
  const receipt = async () =>
    awaitPropagation(here, { project_id, version: await version(), env: "live", needs: 0 }, ONCE);
  /** Stalls the next write of the polled process; returns how to end that. */
  const stall = () => {
    const stalled = Promise.withResolvers<void>();
    nodes.registerMs = SHORT_MS;
    const write = store.write.bind(store);
    const spy = vi.spyOn(store, "write").mockImplementationOnce(async (job) => {
      await stalled.promise;
      return write(job);
    });
    const end = () => {
      nodes.registerMs = LONG_MS;
      stalled.resolve();
    };
    return Object.assign(end, { hasBegun: () => spy.mock.calls.length > 0 });
  };
  /** The content of a response. */
  const contentOf = async ({ page }: FeedResponse): Promise<{ version: number; next_cursor: string }> =>
    JSON.parse(Buffer.concat(await feed.pages.plain(page!)).toString());
  return { change, version, snapshot, poll, receipt, stall, contentOf, nodes, store };
}

for (const backend of runBackends) {
  describe(`a node of another process on ${backend}`, () => {
    const first = {
      "its first snapshot": ({ snapshot }: Awaited<ReturnType<typeof twoProcesses>>) => snapshot("new"),
      "a delta since nothing": ({ poll }: Awaited<ReturnType<typeof twoProcesses>>) => poll("new", 0),
    };
    for (const [what, call] of Object.entries(first))
      it(`is refused ${what} until its row is written, also when it retries`, async () => {
        await using fixture = await testServices(backend);
        await using other = await fixture.another();
        const world = await twoProcesses(fixture, other);
        const endStall = world.stall();
        await expect(call(world)).rejects.toMatchObject(REFUSED);
        await expect(call(world)).rejects.toMatchObject(REFUSED);
        expect(await world.receipt()).toMatchObject({ complete: true, total_nodes: 0 }); // it holds nothing
        endStall();
        await world.nodes.flushed();
        await call(world);
        expect(await world.receipt()).toMatchObject({ total_nodes: 1 });
      });

    // A receipt of the same process, as on SQLite, waits for the row.
    for (const [what, call] of Object.entries(first))
      it.runIf(backend === "postgres")(`gets every change from before its row was written with ${what}`, async () => {
        await using fixture = await testServices(backend);
        await using other = await fixture.another();
        const world = await twoProcesses(fixture, other);
        const { change, version, receipt, stall, contentOf } = world;
        const endStall = stall();
        const response = retried(() => call(world));
        await until(() => endStall.hasBegun());
        await change();
        expect(await receipt()).toMatchObject({ complete: true, total_nodes: 0 });
        endStall();
        expect(await contentOf(await response)).toMatchObject({ version: await version() });
      });

    const faults = {
      "the write of its row stalls": ({ stall }: Awaited<ReturnType<typeof twoProcesses>>) => stall(),
      "its row cannot be written": ({ store }: Awaited<ReturnType<typeof twoProcesses>>) => {
        const spy = vi.spyOn(store, "write").mockRejectedValue(new Error("full"));
        return () => spy.mockRestore();
      },
    };
    for (const [what, apply] of Object.entries(faults))
      it(`gets the newest policy with every delta although ${what}`, async () => {
        await using fixture = await testServices(backend, { flags: { node_live_ms: "10000" } });
        await using other = await fixture.another();
        const world = await twoProcesses(fixture, other);
        const { change, version, snapshot, poll, receipt, contentOf, nodes } = world;
        await snapshot("registered");
        await poll("registered");
        await nodes.flushed();
        fixture.clock.advance(10_000); // its row is no longer live
        const lift = apply(world);
        const awaitRegistration = nodes.awaitRegistration.bind(nodes);
        vi.spyOn(nodes, "awaitRegistration").mockImplementation(async (...args) => {
          const isRegistered = await awaitRegistration(...args);
          if (backend === "postgres") await change(); // on SQLite both processes share what writes
          return isRegistered;
        });
        for (const node of ["registered", "with a cache file"])
          for (const since of [1, 1_000])
            expect(await contentOf(await poll(node, since))).toMatchObject({ version: await version() });
        lift();
        await poll("registered");
        await nodes.flushed();
        expect(await receipt()).toMatchObject({ complete: false });
      });

    it("gets every page of a snapshot if it is registered, also while writes stall and after one has failed", async () => {
      await using fixture = await testServices(backend);
      await using other = await fixture.another();
      const { change, snapshot, poll, receipt, stall, contentOf, nodes, store } = await twoProcesses(fixture, other);
      await change();
      await change();
      const pages = async () => {
        let { next_cursor: cursor } = await contentOf(await snapshot("a", { max_keys: 1 }));
        let count = 1;
        for (; cursor; count++)
          ({ next_cursor: cursor } = await contentOf(await snapshot("a", { max_keys: 1, cursor })));
        return count;
      };
      await snapshot("a");
      await poll("a");
      await nodes.flushed();
      vi.spyOn(store, "write").mockRejectedValueOnce(new Error("full"));
      await Promise.all([poll("a", 1), snapshot("new").catch(() => {})]);
      await nodes.flushed();
      const endStall = stall();
      const newcomer = snapshot("newer").catch((error: unknown) => error);
      await until(() => endStall.hasBegun());
      expect(await pages()).toBe(3);
      expect(await newcomer).toMatchObject(REFUSED);
      expect(await pages()).toBe(3);
      endStall();
      await nodes.flushed();
      expect(await receipt()).toMatchObject({ complete: false });
    });

    it("starts while the disk of the database is full", async () => {
      await using fixture = await testServices(backend);
      await using other = await fixture.another();
      const { snapshot, receipt, contentOf, version, store } = await twoProcesses(fixture, other);
      const spy = vi.spyOn(store, "write").mockRejectedValue(fail("storage_full"));
      expect(await contentOf(await snapshot("early"))).toMatchObject({ version: await version() });
      spy.mockRestore();
      await snapshot("later");
      expect(await receipt()).toMatchObject({ complete: false, total_nodes: 1, unregistered_nodes: 1 });
    });

    it("is served during a stall if it is registered, also if this process has forgotten it", async () => {
      await using fixture = await testServices(backend);
      await using other = await fixture.another();
      const { snapshot, poll, receipt, stall, nodes, store } = await twoProcesses(fixture, other);
      for (const node of ["a", "b"]) {
        await snapshot(node);
        await poll(node);
      }
      await nodes.flushed();
      const endStall = stall();
      const newcomer = snapshot("new").catch((error: unknown) => error);
      expect(await poll("a")).toMatchObject({ page: null });
      expect(await newcomer).toMatchObject(REFUSED);
      expect(await poll("a", 1)).toMatchObject({ page: {} });
      endStall();
      await nodes.flushed();
      const endSecond = stall();
      const forgets = new Promise((resolve) => store.onNotice("resync", resolve));
      await store.notify("resync", "");
      await forgets;
      const [forgotten, another] = [retried(() => poll("b", 1)), snapshot("newer").catch((error: unknown) => error)];
      expect([await forgotten, await another]).toMatchObject([{ page: {} }, REFUSED]);
      endSecond();
      await nodes.flushed();
      expect(await receipt()).toMatchObject({ complete: false, total_nodes: 4 });
    });

    for (const [why, error] of [
      ["could not be written", new Error("cut")],
      ["was refused by a session that is read-only", fail("read_only")],
    ] as const)
      it(`is refused if its row ${why}, except where no other process makes receipts`, async () => {
        await using fixture = await testServices(backend);
        await using other = await fixture.another();
        const { snapshot, receipt, store } = await twoProcesses(fixture, other);
        vi.spyOn(store, "write").mockRejectedValueOnce(error);
        const response = snapshot("new");
        if (backend === "sqlite") await response;
        else {
          await expect(response).rejects.toMatchObject(REFUSED);
          await retried(() => snapshot("new"));
          expect(await receipt()).toMatchObject({ complete: false, total_nodes: 1 });
        }
      });

    it("is served without a row where the database has a note of that", async () => {
      await using fixture = await testServices(backend, { flags: { nodes_max: "100" } });
      await using other = await fixture.another();
      const { snapshot, poll, receipt, nodes } = await twoProcesses(fixture, other);
      await Promise.all(Array.from({ length: 100 }, (_, i) => retried(() => snapshot(`n${i}`))));
      await retried(() => snapshot("one more"));
      await retried(() => poll("one more"));
      await nodes.flushed();
      expect(await receipt()).toMatchObject({ complete: false, total_nodes: 100, unregistered_nodes: 1 });
    });
  });
}
