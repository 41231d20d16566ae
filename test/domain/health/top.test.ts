// `keyrack top`: the operator sees who holds how much, by slug and environment or by network.
import { describe, expect, it } from "vitest";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { cellOwner, networkOwner } from "../../../src/fairness/owners.ts";
import { RecentRefusals } from "../../../src/fairness/recent-refusals.ts";
import { operatorCommands } from "../../../src/server/operator-commands.ts";
import { workspaceById } from "../../../src/store/queries/workspaces.ts";

describe("the largest owners", () => {
  it("are named by slug and environment or by network, at most 20 of a resource, largest first", async () => {
    await using fixture = await testServices("sqlite");
    const { services } = fixture;
    const { actor } = await vendorOf(services);
    const workspace = await workspaceById.first(services.store.read, { id: actor.workspace_id });
    const [polls, connections] = [services.shares.of("polls"), services.shares.of("connections")];
    polls.take(cellOwner(actor.workspace_id, "test"), 3);
    polls.countRefusal(cellOwner(actor.workspace_id, "live"));
    for (let i = 0; i < 25; i++) connections.take(networkOwner(`192.0.${i}.1`), i + 1);
    const top = async (by?: string) => (await operatorCommands["shares.top"](services, { by })).data;
    expect(await top("polls")).toEqual([
      {
        resource: "polls",
        used: 3,
        bound: polls.limits.bound,
        share: polls.limits.bound,
        owners: [
          { owner: `${workspace?.slug}/test`, kind: "cell", used: 3, refused_5m: 0 },
          { owner: `${workspace?.slug}/live`, kind: "cell", used: 0, refused_5m: 1 },
        ],
      },
    ]);
    const [networks] = await top("connections");
    expect(networks?.owners.length).toBe(20);
    expect(networks?.owners[0]).toEqual({ owner: "192.0.24.0/24", kind: "network", used: 25, refused_5m: 0 });
    const all = await top();
    expect(all.length).toBeGreaterThan(10);
    expect(all.find(({ resource }) => resource === "loop")).toMatchObject({ bound: null, share: null });
  });
});

describe("recent refusals", () => {
  it("are summed by owner for five minutes", () => {
    let now = 0;
    const recent = new RecentRefusals(() => now);
    const owner = networkOwner("192.0.2.1");
    recent.count(owner);
    now = 4 * 60_000;
    recent.count(owner);
    recent.count(owner);
    expect(recent.list().get(owner.id)?.count).toBe(3);
    now = 5 * 60_000;
    expect(recent.list().get(owner.id)?.count).toBe(2);
    now = 9 * 60_000;
    expect(recent.list().size).toBe(0);
  });

  it("name a bounded number of owners", () => {
    const recent = new RecentRefusals(() => 0);
    for (let i = 0; i < 1_100; i++) recent.count(cellOwner(String(i), "live"));
    expect(recent.list().size).toBe(1_000);
  });
});
