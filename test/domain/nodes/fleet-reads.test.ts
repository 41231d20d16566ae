// Reads of a whole fleet: few at a time for an owner, and each ends when its client has left or no more nodes are
// counted.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { keyActor, testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { turns } from "../../../harness/waiting.ts";
import { ownerOf, type SecretKeyActor } from "../../../src/domain/core/actor.ts";
import type { Ctx } from "../../../src/domain/core/context.ts";
import { NEVER_DISCONNECTS } from "../../../src/domain/core/subscription.ts";
import { createKey } from "../../../src/domain/keys/keys.ts";
import { showVerdict } from "../../../src/domain/keys/lookup.ts";
import { reportKeyPolicy } from "../../../src/domain/key-policy/report.ts";
import { listFleet } from "../../../src/domain/nodes/nodes.ts";
import { withNodeWarnings } from "../../../src/domain/nodes/needs.ts";
import {
  awaitKeyChange,
  awaitProjects,
  showPropagation,
  type KeyChange,
} from "../../../src/domain/nodes/propagation.ts";
import { showOverview } from "../../../src/domain/workspaces/overview.ts";
import { createProject } from "../../../src/domain/workspaces/projects.ts";
import { createTenant } from "../../../src/domain/workspaces/tenants.ts";
import { FLEET_READS } from "../../../src/fairness/slots.ts";
import type { Env } from "../../../src/kernel/credentials.ts";
import { fail } from "../../../src/kernel/errors.ts";
import { CAP } from "../../../src/kernel/policy/capabilities.ts";

describe("a read of a fleet", () => {
  let fixture: TestServices;
  let ctx: Ctx<SecretKeyActor>;
  beforeAll(async () => {
    fixture = await testServices("sqlite");
    ctx = await vendorOf(fixture.services);
  });
  afterAll(() => fixture[Symbol.asyncDispose]());

  const addNodes = async (project_id: string, count: number, env: Env): Promise<void> => {
    await fixture.sql(`with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < ${count})
      insert into policy_nodes (project_id, node_id, env_scope, version, last_seen_at)
      select '${project_id}', 'n' || n, '${env}', 1, ${fixture.clock.now()} from numbers`);
  };

  it("waits while its owner reads two others, whichever they are, and no other owner does", async () => {
    const { services } = fixture;
    const { id: project_id } = await createProject(ctx, { name: "P", slug: "waits" });
    const { id: tenant_id } = await createTenant(ctx, { external_id: "t" });
    const { id } = await createKey(ctx, { project_id, tenant_id, env: "test" });
    const test = { services, actor: keyActor(ctx.actor.workspace_id, { id: "k", env: "test" }) };
    const reads = {
      fleet: () => listFleet(test, { limit: 1 }),
      overview: () => showOverview(test, undefined),
      verdict: () => showVerdict(test, id),
      receipt: () => showPropagation(test, { project_id, version: 1, wait_ms: 0 }, NEVER_DISCONNECTS),
      revocation: () => awaitKeyChange(test, { project_id, version: 1, key: { env: "test" }, needs: 0 } as KeyChange),
      tenant: () => awaitProjects(test, [project_id], 0),
      keyPolicy: () => reportKeyPolicy(test, project_id, {}),
      warning: () => withNodeWarnings(test, { project_id, env: "test" as const }, CAP.cidr),
    };
    for (const [name, read] of Object.entries(reads)) {
      const held = Promise.withResolvers<void>();
      for (let i = 0; i < 2; i++) void services.readSlots.fleet.run(ownerOf(test.actor), () => held.promise);
      let isDone = false;
      const reading = read().finally(() => (isDone = true));
      await turns(20);
      expect(isDone, name).toBe(false);
      expect((await listFleet(ctx, { limit: 1 })).counts.total, name).toBe(0);
      held.resolve();
      await reading;
    }
  });

  it("is left out of the response to a committed change where its owner has no slot", async () => {
    const { services } = fixture;
    const { id: project_id } = await createProject(ctx, { name: "P", slug: "full" });
    await addNodes(project_id, 1, "test");
    const requireStillValid = () => Promise.reject(fail("credential_changed"));
    const test = { services, actor: keyActor(ctx.actor.workspace_id, { id: "k", env: "test" }), requireStillValid };
    const revoked = { project_id, version: 1, key: { env: "test" }, needs: 0 } as KeyChange;
    const held = Promise.withResolvers<void>();
    const others = Array.from({ length: 2 + FLEET_READS.waitingPerOwner }, () =>
      services.readSlots.fleet.run(ownerOf(test.actor), () => held.promise).catch(() => {}),
    );
    expect(await awaitKeyChange(test, revoked)).toMatchObject({ complete: false, total_nodes: 0, nodes: [] });
    expect(await awaitProjects(test, [project_id], 0)).toMatchObject({ complete: false, projects: [{ project_id }] });
    const { warnings } = await withNodeWarnings(test, { project_id, env: "test" as const }, CAP.cidr);
    expect(warnings).toMatchObject([{ path: "allowed_cidrs", message: expect.stringContaining("could not be read") }]);
    held.resolve();
    await Promise.all(others);
    expect(await awaitKeyChange(test, revoked)).toMatchObject({ complete: true, total_nodes: 1 });
  });

  it("is one for all keys that are created at the same time, and counts nodes of before it started", async () => {
    const { services } = fixture;
    const { id: project_id } = await createProject(ctx, { name: "P", slug: "together" });
    const run = vi.spyOn(services.readSlots.fleet, "run");
    const warningOf = async () => {
      const { warnings } = await withNodeWarnings(ctx, { project_id, env: "live" as const }, CAP.cidr);
      return warnings?.[0]?.message;
    };
    const together = Array.from({ length: 20 }, warningOf);
    await addNodes(project_id, 1, "live");
    const messages = await Promise.all(together);
    expect(run).toHaveBeenCalledTimes(1);
    expect(new Set(messages)).toEqual(new Set([expect.stringMatching(/^1 of 1 live nodes cannot enforce this/)]));
    await fixture.sql("delete from policy_nodes");
    expect(await warningOf()).toBe(undefined);
    expect(run).toHaveBeenCalledTimes(2);
  });

  it("ends when its client has disconnected", async () => {
    const { id } = await createProject(ctx, { name: "P", slug: "disconnected" });
    await addNodes(id, 2_000, "live");
    let pieces = 0;
    const leaving = { ...ctx, hasDisconnected: () => ++pieces > 2 };
    expect((await listFleet(leaving, { project_id: id, limit: 1 })).counts.total).toBe(1_000);
  });

  it("ends when no more nodes of its kind are counted", async () => {
    const { services } = fixture;
    const owner = await vendorOf(services);
    for (const slug of ["one", "two"]) {
      const { id } = await createProject(owner, { name: "P", slug });
      await addNodes(id, 10_000, "live");
    }
    const all = vi.spyOn(services.store.read, "all");
    const piecesFor = async (env?: Env): Promise<number> => {
      all.mockClear();
      await listFleet(owner, { limit: 1, ...(env && { env }) });
      return all.mock.calls.filter(([{ sql }]) => sql.includes("missed_at")).length;
    };
    expect(await piecesFor("live")).toBe(20);
    expect(await piecesFor()).toBeGreaterThan(40); // of test keys there may be more
    all.mockRestore();
  });
});
