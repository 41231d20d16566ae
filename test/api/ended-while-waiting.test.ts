// A list, or a costly read, that had to wait for its owner's earlier ones is judged by what its credential is then. A
// costly read is judged again when it has ended.
import { beforeAll, describe, expect, it, vi } from "vitest";
import { backends } from "../../harness/databases/backends.ts";
import { expectRefusal, sharedInstance, type Reply, type Workspace } from "../../harness/instances/test-instance.ts";
import { DEADLINE_MS, until } from "../../harness/waiting.ts";
import { LargeResponses } from "../../src/fairness/large-responses.ts";
import { cellOwner, type Owner } from "../../src/fairness/owners.ts";
import { FLEET_READS, Slots, THREAD_READS } from "../../src/fairness/slots.ts";

const ROUTES = {
  largeResponses: "GET /v1/tenants",
  fleetReads: "GET /v1/nodes?view=fleet",
  threadReads: "GET /v1/usage/series",
} as const;
type Kind = keyof typeof ROUTES;

for (const back of backends) {
  describe(`a request that waits for a slot on ${back}`, () => {
    const r = sharedInstance(back);
    beforeAll(async () => {
      const { services } = r.app;
      const { shares } = services;
      Object.assign(services, {
        largeResponses: new LargeResponses(shares.of("unsent"), DEADLINE_MS),
        fleetReads: new Slots({ ...FLEET_READS, waitMs: DEADLINE_MS }, shares.of("fleet_reads")),
        threadReads: new Slots({ ...THREAD_READS, waitMs: DEADLINE_MS }, shares.of("usage_reads")),
      });
    });

    /** Takes all slots of an owner; returns what releases them. */
    const takeSlots = (kind: Kind, owner: Owner): (() => void) => {
      const { services } = r.app;
      const held = Promise.withResolvers<void>();
      for (let i = 0; i < 2; i++)
        if (kind === "largeResponses") void services.largeResponses.whileBuilding(owner, () => held.promise);
        else void services[kind].run(owner, () => held.promise);
      return held.resolve;
    };

    /** Sends the requests while all slots are taken, and frees these after `meanwhile`. */
    const delayed = async (
      w: Workspace,
      kind: Kind,
      requests: () => Promise<Reply>[],
      meanwhile: () => Promise<unknown>,
    ): Promise<Reply[]> => {
      const { services } = r.app;
      const release = takeSlots(kind, cellOwner(w.id, "live"));
      const waiting =
        kind === "largeResponses"
          ? vi.spyOn(services.largeResponses, "beginBuilding")
          : vi.spyOn(services[kind], "run");
      const replies = Promise.all(requests());
      await until(() => waiting.mock.calls.length > 0);
      waiting.mockRestore();
      await meanwhile();
      release();
      return replies;
    };
    const revokeKey = (w: Workspace) => w.call("sk_owner", `POST /v1/secret_keys/${w.keyIds.sk_admin}/revoke`, {});

    it.each(Object.entries(ROUTES))("is refused where its key was revoked meanwhile (%s)", async (kind, route) => {
      const w = await r.workspace();
      const [refused] = await delayed(
        w,
        kind as Kind,
        () => [w.call("sk_admin", route)],
        () => revokeKey(w),
      );
      expectRefusal(refused as Reply, 401, "invalid_key");
      expect((await w.call("sk_owner", route)).status).toBe(200); // its slot is free again
    });

    it.each(Object.entries(ROUTES))("is answered where its key is still valid (%s)", async (kind, route) => {
      const w = await r.workspace();
      const [answered] = await delayed(
        w,
        kind as Kind,
        () => [w.call("sk_admin", route)],
        async () => {},
      );
      expect(answered?.status).toBe(200);
    });

    it.each(["fleetReads", "threadReads"] as const)(
      "is refused where its key is revoked during the read (%s)",
      async (kind) => {
        const w = await r.workspace();
        const slots = r.app.services[kind];
        const run = vi.spyOn(slots, "run").mockImplementationOnce(async (...args) => {
          const found = await Slots.prototype.run.apply(slots, args);
          await revokeKey(w);
          return found;
        });
        expectRefusal(await w.call("sk_admin", ROUTES[kind]), 401, "invalid_key");
        run.mockRestore();
      },
    );

    it("is refused where its key is revoked while the audit chain is verified", async () => {
      const w = await r.workspace();
      const { store } = r.app.services;
      const verify = vi.spyOn(store, "verify").mockImplementationOnce(async (...args) => {
        const found = await Object.getPrototypeOf(store).verify.apply(store, args);
        await revokeKey(w);
        return found;
      });
      expectRefusal(await w.call("sk_admin", "GET /v1/audit_logs/chain"), 401, "invalid_key");
      verify.mockRestore();
    });

    it("is refused alone: another caller gets the overview that both wait for", async () => {
      const w = await r.workspace();
      const overviews = vi.spyOn(r.app.services.overviews, "get");
      const [refused, answered] = await delayed(
        w,
        "fleetReads",
        () => [w.call("sk_admin", "GET /v1/overview"), w.call("sk_owner", "GET /v1/overview")],
        async () => {
          await until(() => overviews.mock.calls.length === 2);
          await revokeKey(w);
        },
      );
      overviews.mockRestore();
      expectRefusal(refused as Reply, 401, "invalid_key");
      expect(answered?.status).toBe(200);
    });
  });
}
