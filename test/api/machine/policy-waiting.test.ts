// Long polls of the policy feed, acknowledging nodes, and revocations that wait for them.
import { beforeEach, describe, expect, it, vi } from "vitest";
import { cellOwner } from "../../../src/fairness/owners.ts";
import { reapSilentNodes } from "../../../src/domain/policy/retention.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { policyFeed, type Body } from "../../../harness/instances/policy-feed.ts";
import { testInstance, type TestInstance, type Workspace } from "../../../harness/instances/test-instance.ts";
import { until } from "../../../harness/waiting.ts";
import { recordPresence } from "../../../src/domain/nodes/presence.ts";
import { DAY_MS } from "../../../src/kernel/durations.ts";

for (const backend of runBackends) {
  describe(`waiting on the policy feed on ${backend}`, () => {
    const { now, snapshot, delta, version, revoke, nodes } = policyFeed(backend);
    let instance: TestInstance;
    let workspace: Workspace;
    beforeEach(() => {
      ({ instance, workspace } = now());
    });

    describe("a waiting poll", () => {
      const waits = async (n: number): Promise<void> => {
        await until(() => instance.app.services.feed.waiting === n);
      };

      it("responds when the version changes, with the changes", async () => {
        const key = await workspace.mint();
        const at = await version();
        const poll = delta(at, "&wait_ms=25000");
        await waits(1);
        await revoke(key.id);
        const { status, body } = await poll;
        expect([status, body.changes[0].change, body.version]).toEqual([200, "remove", at + 1]);
        expect(instance.app.services.feed.waiting).toBe(0);
      });

      it("shares one read of the head and the same bytes with a fleet, each with its own request id", async () => {
        const at = await version();
        const polls = Array.from({ length: 20 }, () => delta(at, "&wait_ms=25000"));
        await waits(20);
        const { misses } = instance.app.services.feed.reads;
        await workspace.mint({ scopes: ["größe:lesen"] });
        const answers = await Promise.all(polls);
        expect(instance.app.services.feed.reads.misses - misses).toBeLessThanOrEqual(2); // not once per poll
        expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
        expect(answers[0]?.body.changes[0].scopes).toEqual(["größe:lesen"]);
        expect(new Set(answers.map(({ headers }) => headers.get("request-id"))).size).toBe(20);
      });

      it("responds at once if there is something newer, and with 304 after its wait", async () => {
        await workspace.mint();
        const at = await version();
        expect((await delta(at - 1, "&wait_ms=25000")).status).toBe(200);
        expect((await delta(at, "&wait_ms=20")).status).toBe(304);
        expect(instance.app.services.feed.waiting).toBe(0);
      });

      it("does not wait when its node says that it is leaving", async () => {
        using subscribe = vi.spyOn(instance.app.services.feed, "subscribe");
        const at = await version();
        expect((await delta(at, "&wait_ms=1000&node=n&leaving=true")).status).toBe(304);
        expect(subscribe).not.toHaveBeenCalled();
        await delta(at, "&wait_ms=1");
        expect(subscribe).toHaveBeenCalledOnce();
      });

      it("for live keys advances with changes of test keys, which would else leave it too far behind a delta", async () => {
        const at = await version();
        const poll = delta(at, "&env=live&wait_ms=25000");
        await waits(1);
        await workspace.mint({ env: "test" });
        const { status, body } = await poll;
        expect([status, body.object, body.version, body.changes]).toEqual([200, "policy_delta", at + 1, []]);
      });

      it("is not woken by another project", async () => {
        const other = await instance.workspace();
        const at = await version();
        const poll = delta(at, "&wait_ms=60");
        await waits(1);
        await other.mint();
        expect((await poll).status).toBe(304);
      });

      it("is released when the client disconnects", async () => {
        const leaving = new AbortController();
        const url = `${instance.url}/v1/policy/delta?project_id=${workspace.project_id}&since=${await version()}&wait_ms=25000`;
        const poll = fetch(url, {
          headers: { authorization: `Bearer ${workspace.keys.sk_owner}` },
          signal: leaving.signal,
        });
        poll.catch(() => {});
        await waits(1);
        leaving.abort();
        await waits(0);
        await expect(poll).rejects.toThrow("aborted");
      });
    });

    describe("nodes", () => {
      it("are registered by their polls, and an unchanged report writes nothing", async () => {
        await workspace.mint();
        const at = await version();
        await delta(at, "&node=n1");
        const row = { node_id: "n1", env_scope: "all", version: at, last_seen_at: instance.clock.now() };
        expect(await nodes()).toEqual([expect.objectContaining(row)]);
        instance.clock.advance(29_999);
        await delta(at, "&node=n1");
        expect(await nodes()).toEqual([expect.objectContaining(row)]);
        instance.clock.advance(1);
        await delta(at, "&node=n1");
        expect(await nodes()).toEqual([expect.objectContaining({ ...row, last_seen_at: instance.clock.now() })]);
        await workspace.mint();
        await delta(at + 1, "&node=n1");
        expect(await nodes()).toEqual([expect.objectContaining({ version: at + 1 })]);
        expect(await workspace.actions()).toEqual(["api_key.created", "api_key.created"]);
      });

      it("have a row per environment scope, and none without a name", async () => {
        const at = await version();
        await delta(at);
        expect(await nodes()).toEqual([]);
        await delta(at, "&node=n&env=live");
        await delta(at, "&node=n&env=test");
        await delta(at, "&node=n");
        expect((await nodes()).map(({ env_scope }) => String(env_scope)).toSorted((a, b) => (a < b ? -1 : 1))).toEqual([
          "all",
          "live",
          "test",
        ]);
      });

      it("are registered by their first snapshot, with nothing acknowledged", async () => {
        await workspace.mint();
        await snapshot("&node=n1");
        expect(await nodes()).toEqual([expect.objectContaining({ node_id: "n1", version: 0 })]);
      });

      it("are registered likewise by a poll with a version ahead of the server, whose response is a snapshot", async () => {
        await delta((await version()) + 5, "&node=ahead");
        expect(await nodes()).toEqual([expect.objectContaining({ node_id: "ahead", version: 0 })]);
      });

      it("are removed when they leave, or after a day of silence", async () => {
        const at = await version();
        await delta(at, "&node=a");
        await delta(at, "&node=b");
        await delta(at, "&node=a&leaving=true&wait_ms=25000");
        expect((await nodes()).map(({ node_id }) => node_id)).toEqual(["b"]);
        instance.clock.advance(DAY_MS);
        instance.app.services.nodes.presentAt = instance.clock.now(); // nodes could have reported all the time
        await reapSilentNodes(instance.app.services);
        expect(await nodes()).toHaveLength(1);
        instance.clock.advance(1);
        await reapSilentNodes(instance.app.services);
        expect(await nodes()).toEqual([]);
      });
    });

    describe("revoke?wait=true", () => {
      it("responds at once when no node holds policy", async () => {
        const key = await workspace.mint();
        const { body } = await revoke(key.id, "?wait=true");
        expect(body.propagation).toEqual({
          version: await version(),
          complete: true,
          waited_ms: 0,
          acked_nodes: 0,
          total_nodes: 0,
          withheld_nodes: 0,
          nodes: [],
          nodes_omitted: 0,
        });
      });

      it("responds when the last live node of that environment has acknowledged", async () => {
        const key = await workspace.mint();
        const at = await version();
        await delta(at, "&node=all");
        await delta(at, "&node=live&env=live");
        await delta(at, "&node=test&env=test");
        await nodes();
        const answer = revoke(key.id, "?wait=true");
        const polls = ["&node=all", "&node=live&env=live"].map(async (more) => {
          const seen = await delta(at, `${more}&wait_ms=25000`);
          await delta(seen.body.version as number, more);
        });
        const { propagation } = (await answer).body;
        await Promise.all(polls);
        expect(propagation).toMatchObject({ version: at + 1, complete: true, acked_nodes: 2, total_nodes: 2 });
        expect(propagation.nodes.map((node: Body) => [node.node_id, node.env_scope, node.acked])).toEqual([
          ["all", "all", true],
          ["live", "live", true],
        ]);
      });

      it("does not wait for nodes that are not live, and reports on a key revoked earlier", async () => {
        const key = await workspace.mint();
        await delta(await version(), "&node=gone");
        await nodes();
        for (let served = 0; served < 240_000; served += 10_000) {
          instance.clock.advance(10_000);
          await recordPresence(instance.app.services); // nodes could have reported all the time
        }
        const first = await revoke(key.id, "?wait=true");
        expect(first.body.propagation).toMatchObject({ complete: true, total_nodes: 0 });
        const before = await workspace.actions();
        const again = await revoke(key.id, "?wait=true");
        expect(again.body.propagation).toEqual(first.body.propagation);
        expect(await workspace.actions()).toEqual(before);
      });
    });
  });

  describe(`a short wait on ${backend}`, () => {
    it("reports complete: false when a live node does not acknowledge", async () => {
      await using instance = await testInstance(backend, { flags: { revoke_wait_ms: "50" } });
      const workspace = await instance.workspace();
      const key = await workspace.mint();
      await workspace.call("sk_owner", `GET /v1/policy/delta?project_id=${workspace.project_id}&since=2&node=silent`);
      await instance.app.services.nodes.flushed();
      const { body } = await workspace.call("sk_owner", `POST /v1/keys/${key.id}/revoke?wait=true`, {});
      expect(body.propagation).toMatchObject({ complete: false, acked_nodes: 0, total_nodes: 1, version: 3 });
      expect(body.revoked_at).not.toBeNull();
    });

    it("answers a neighbour's poll early where another workspace needs its place", async () => {
      await using instance = await testInstance(backend);
      const [neighbour, workspace] = [await instance.workspace(), await instance.workspace()];
      const { feed, shares } = instance.app.services;
      const poll = (v: typeof workspace) =>
        v.call("sk_owner", `GET /v1/policy/delta?project_id=${v.project_id}&since=1&wait_ms=25000`);
      const early = poll(neighbour);
      while (feed.waiting < 1) await new Promise((resolve) => setImmediate(resolve));
      shares.of("polls").take(cellOwner(neighbour.id, "live"), 9_999);
      const waiting = poll(workspace);
      expect((await early).status).toBe(304);
      await workspace.mint();
      const { status, body } = await waiting;
      expect([status, body.changes.length]).toEqual([200, 1]);
      const { body: again } = await poll(workspace);
      expect(again.version).toBe(2);
    });

    it("responds to waiting polls and receipts when it stops, and accepts no new ones", async () => {
      const instance = await testInstance(backend);
      const workspace = await instance.workspace();
      const { feed, waitingReceipts } = instance.app.services;
      const get = (path: string) => workspace.call("sk_owner", `GET /v1/${path}&project_id=${workspace.project_id}`);
      await workspace.mint();
      await get("policy/delta?since=1&node=behind");
      const poll = get("policy/delta?since=2&wait_ms=25000");
      const receipt = get("propagation?version=2&wait_ms=25000");
      await until(() => feed.waiting > 0 && waitingReceipts.size > 0);
      const disposed = instance[Symbol.asyncDispose]();
      expect((await poll).status).toBe(304);
      expect((await receipt).body).toMatchObject({ complete: false, acked_nodes: 0, total_nodes: 1 });
      expect(
        feed.subscribe(
          cellOwner(workspace.id, "live"),
          { project_id: workspace.project_id, version: 0 },
          1_000,
          () => () => {},
        ),
      ).toBeUndefined();
      await disposed;
    });
  });
}
