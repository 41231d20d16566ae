// Nodes that were seen by a clock that was ahead: they count as live no longer than others, from the next start on.
import { describe, expect, it } from "vitest";
import { runBackends, type Backend } from "../../../harness/databases/backends.ts";
import { newPolicyProject, policyNode } from "../../../harness/instances/policy-feed.ts";
import { openTestServices } from "../../../harness/instances/services.ts";
import { START, testClock, testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { correctSeenTimes } from "../../../src/domain/nodes/seen-times.ts";
import { reapSilentNodes } from "../../../src/domain/policy/retention.ts";
import { DAY_MS, HOUR_MS } from "../../../src/kernel/durations.ts";

const LIVE_MS = 120_000;
const AHEAD_MS = 365 * DAY_MS;

/** A process whose clock is a year ahead, in which two nodes have registered and one has not; then one that is right. */
async function world(backend: Backend) {
  const stack = new AsyncDisposableStack();
  const fixture = stack.use(await testServices(backend));
  const ahead = stack.use(await openTestServices(fixture.target, {}, testClock(START + AHEAD_MS)));
  const project = await newPolicyProject(await vendorOf(fixture.services));
  const { head, project_id } = project;
  ahead.services.nodes.acknowledge(head, policyNode("gone"), 0);
  ahead.services.nodes.acknowledge(head, policyNode("polls"), head.version);
  await ahead.services.nodes.flushed();
  const at = START + AHEAD_MS;
  await fixture.sql(`insert into unregistered_nodes (project_id, scope, nodes, last_seen_at)
    values ('${project_id}', 'live', 1, ${at})`);
  const seen = async () => {
    const times = "select last_seen_at as at from policy_nodes union all select last_seen_at from unregistered_nodes";
    return (await fixture.sql(times)).map((row) => Number(row["at"]) - START);
  };
  return { ...project, fixture, seen, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

for (const backend of runBackends)
  describe(`nodes that a clock saw in the future, on ${backend}`, () => {
    it("count as live for as long as others, from the job on", async () => {
      await using w = await world(backend);
      const { services, clock } = w.fixture;
      const unknown = { total_nodes: 2, unregistered_nodes: 1 };
      expect(await w.receipt()).toMatchObject({ complete: false, ...unknown });
      expect(await reapSilentNodes(services)).toBe(0);
      expect(await w.seen()).toEqual([0, 0, 0]);
      clock.advance(LIVE_MS - 1);
      expect(await w.receipt()).toMatchObject({ complete: false, ...unknown });
      clock.advance(1);
      expect(await w.receipt()).toMatchObject({ complete: true, total_nodes: 0 });
      clock.advance(DAY_MS);
      expect(await reapSilentNodes(services)).toBe(2);
    });

    it("are written again with their next poll, also by a process that knows the future time", async () => {
      await using w = await world(backend);
      const { services, clock } = w.fixture;
      const poll = async () => {
        services.nodes.acknowledge(w.head, policyNode("polls"), w.head.version);
        await services.nodes.flushed();
      };
      await poll();
      await correctSeenTimes(services); // as the leader does
      clock.advance(LIVE_MS - 1_000);
      await poll();
      clock.advance(2_000);
      expect(await w.receipt()).toMatchObject({ complete: true, acked_nodes: 1, total_nodes: 1 });
    });

    it("are left alone by up to an hour, by which the clocks of hosts may differ", async () => {
      await using w = await world(backend);
      const { services, clock } = w.fixture;
      clock.set(START + AHEAD_MS - HOUR_MS);
      expect(await correctSeenTimes(services)).toBe(0);
      clock.set(START + AHEAD_MS - HOUR_MS - 1);
      expect(await correctSeenTimes(services)).toBe(3);
    });

    it.runIf(backend === "postgres")(
      "are left alone by a process that is behind the clock of the database",
      async () => {
        await using w = await world(backend);
        const { services } = w.fixture;
        expect(await correctSeenTimes({ ...services, claimNow: () => START + AHEAD_MS })).toBe(0);
        expect(await correctSeenTimes(services)).toBe(3);
      },
    );
  });
