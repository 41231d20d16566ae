// A list, or a costly read, that had to wait for its owner's earlier ones is judged by what its credential is then. A
// costly read is judged again when it has ended.
import { beforeAll, describe, expect, it, vi } from "vitest";
import { runBackends } from "../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Reply, type Workspace } from "../../harness/instances/test-instance.ts";
import { DEADLINE_MS, until } from "../../harness/waiting.ts";
import { LargeResponses } from "../../src/fairness/large-responses.ts";
import { cellOwner, type Owner } from "../../src/fairness/owners.ts";
import { FLEET_READS, Slots, THREAD_READS } from "../../src/fairness/slots.ts";

const ROUTES = {
  largeResponses: "GET /v1/tenants",
  fleet: "GET /v1/nodes?view=fleet",
  threads: "GET /v1/usage/series",
} as const;
type Kind = keyof typeof ROUTES;

for (const backend of runBackends) {
  describe(`a request that waits for a slot on ${backend}`, () => {
    const instance = sharedInstance(backend);
    beforeAll(async () => {
      const { services } = instance.app;
      const { shares } = services;
      Object.assign(services, {
        largeResponses: new LargeResponses(shares.of("unsent"), DEADLINE_MS),
        readSlots: {
          fleet: new Slots({ ...FLEET_READS, waitMs: DEADLINE_MS }, shares.of("fleet_reads")),
          threads: new Slots({ ...THREAD_READS, waitMs: DEADLINE_MS }, shares.of("usage_reads")),
        },
      });
    });

    /** Takes all slots of an owner; returns what releases them. */
    const takeSlots = (kind: Kind, owner: Owner): (() => void) => {
      const { services } = instance.app;
      const held = Promise.withResolvers<void>();
      for (let i = 0; i < 2; i++)
        if (kind === "largeResponses") void services.largeResponses.whileBuilding(owner, () => held.promise);
        else void services.readSlots[kind].run(owner, () => held.promise);
      return held.resolve;
    };

    /** Sends the requests while all slots are taken, and frees these after `meanwhile`. */
    const delayed = async (
      workspace: Workspace,
      kind: Kind,
      requests: () => Promise<Reply>[],
      meanwhile: () => Promise<unknown>,
    ): Promise<Reply[]> => {
      const { services } = instance.app;
      const release = takeSlots(kind, cellOwner(workspace.id, "live"));
      const waiting =
        kind === "largeResponses"
          ? vi.spyOn(services.largeResponses, "beginBuilding")
          : vi.spyOn(services.readSlots[kind], "run");
      const replies = Promise.all(requests());
      await until(() => waiting.mock.calls.length > 0);
      waiting.mockRestore();
      await meanwhile();
      release();
      return replies;
    };
    const revokeKey = (workspace: Workspace) =>
      workspace.call("sk_owner", `POST /v1/secret_keys/${workspace.keyIds.sk_admin}/revoke`, {});

    it.each(Object.entries(ROUTES))("is refused where its key was revoked meanwhile (%s)", async (kind, route) => {
      const workspace = await instance.workspace();
      const [refused] = await delayed(
        workspace,
        kind as Kind,
        () => [workspace.call("sk_admin", route)],
        () => revokeKey(workspace),
      );
      expectRefusal(refused as Reply, 401, "invalid_key");
      expect((await workspace.call("sk_owner", route)).status).toBe(200); // its slot is free again
    });

    it.each(Object.entries(ROUTES))("is answered where its key is still valid (%s)", async (kind, route) => {
      const workspace = await instance.workspace();
      const [answered] = await delayed(
        workspace,
        kind as Kind,
        () => [workspace.call("sk_admin", route)],
        async () => {},
      );
      expect(answered?.status).toBe(200);
    });

    it.each(["fleet", "threads"] as const)("is refused where its key is revoked during the read (%s)", async (kind) => {
      const workspace = await instance.workspace();
      const slots = instance.app.services.readSlots[kind];
      const run = vi.spyOn(slots, "run").mockImplementationOnce(async (...args) => {
        const found = await Slots.prototype.run.apply(slots, args);
        await revokeKey(workspace);
        return found;
      });
      expectRefusal(await workspace.call("sk_admin", ROUTES[kind]), 401, "invalid_key");
      run.mockRestore();
    });

    it("is refused where its key is revoked while the audit chain is verified", async () => {
      const workspace = await instance.workspace();
      const { store } = instance.app.services;
      const verify = vi.spyOn(store, "verify").mockImplementationOnce(async (...args) => {
        const found = await Object.getPrototypeOf(store).verify.apply(store, args);
        await revokeKey(workspace);
        return found;
      });
      expectRefusal(await workspace.call("sk_admin", "GET /v1/audit_logs/chain"), 401, "invalid_key");
      verify.mockRestore();
    });

    it("is refused alone: another caller gets the overview that both wait for", async () => {
      const workspace = await instance.workspace();
      const overviews = vi.spyOn(instance.app.services.overviews, "get");
      const [refused, answered] = await delayed(
        workspace,
        "fleet",
        () => [workspace.call("sk_admin", "GET /v1/overview"), workspace.call("sk_owner", "GET /v1/overview")],
        async () => {
          await until(() => overviews.mock.calls.length === 2);
          await revokeKey(workspace);
        },
      );
      overviews.mockRestore();
      expectRefusal(refused as Reply, 401, "invalid_key");
      expect(answered?.status).toBe(200);
    });
  });
}
