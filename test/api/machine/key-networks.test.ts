// Reports of requests from outside a key's networks, and the figures read back: bounded, kept 30 days, never a reason
// to refuse.
import { beforeEach, describe, expect, it, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { DAY, ingestFixture, iso } from "../../../harness/instances/ingest.ts";
import {
  expectRefusal,
  testInstance,
  type Json,
  type TestInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { networksOfKey } from "../../../src/store/queries/key-networks.ts";
import type { KeyNetworkRow } from "../../../src/store/schema/tables.ts";
import type { Store } from "../../../src/store/store.ts";
import { reapKeyNetworks } from "../../../src/domain/usage/key-networks.ts";

const refused = (network: unknown, more: object = {}) => ({
  status: 403,
  denial_reason: "ip_not_allowed",
  network,
  ...more,
});
const noted = (network: unknown, more: object = {}) => ({ would_deny: "ip_not_allowed", network, ...more });

for (const backend of runBackends) {
  describe(`networks of a key on ${backend}`, () => {
    const { now, event, batch, send, usage } = ingestFixture(backend);
    let instance: TestInstance;
    let workspace: Workspace;
    let key: { id: string };
    beforeEach(() => {
      ({ instance, workspace, key } = now());
    });
    const report = async (days = 7, id = key.id): Promise<Json> =>
      (await workspace.call("sk_owner", `GET /v1/keys/${id}/ip_report?days=${days}`)).body;
    const rows = async (days = 7): Promise<[string, string, number][]> =>
      ((await report(days)).data as KeyNetworkRow[]).map((row) => [row.network, row.outcome, row.requests]);

    const stored = () =>
      networksOfKey.all(instance.app.services.store.read, {
        workspace_id: workspace.id,
        key_id: key.id,
        from: 0,
        to: 1e6,
        limit: 1_000,
      });

    it("are summed by network and outcome, corrected for sampling, most requests first", async () => {
      const at = instance.clock.now();
      const events = [
        event(refused("198.51.100.0/24", { ts: iso(at - 5_000) })),
        event(refused("198.51.100.0/24", { sample_rate: 0.5 })),
        event(noted("2001:db9:1::/48", { sample_rate: 0.1 })),
        event(noted(null)),
        event(),
        event({ status: 429, denial_reason: "rate_limited", ...noted("198.51.100.0/24") }),
      ];
      expect((await send(batch(events))).status).toBe(202);
      await workspace.call("sk_owner", `PATCH /v1/keys/${key.id}`, {
        allowed_cidrs: ["10.0.0.0/8"],
        ip_mode: "report",
      });
      const shown = await report();
      expect(shown).toMatchObject({ object: "ip_report", key_id: key.id, days: 7, mode: "report" });
      expect(shown.data).toEqual([
        expect.objectContaining({ network: "2001:db9:1::/48", outcome: "would_refuse", requests: 10 }),
        {
          network: "198.51.100.0/24",
          outcome: "refused",
          requests: 3,
          first_seen_at: iso(at - 5_000),
          last_seen_at: iso(at),
        },
        expect.objectContaining({ network: "198.51.100.0/24", outcome: "would_refuse", requests: 1 }),
        expect.objectContaining({ network: "unknown", outcome: "would_refuse", requests: 1 }),
      ]);
      expect((await usage())[1]).toMatchObject({ requests: 16 });
    });

    it("count as unknown where the field is malformed, and never refuse a batch", async () => {
      const wrong = [
        "198.51.100.7/24",
        "198.51.100.0/25",
        "198.51.100.7",
        "2001:DB9:1::/48",
        "x".repeat(99),
        7,
        {},
        undefined,
      ];
      const events = wrong.map((network) => event(refused(network)));
      const others = [{ would_deny: "moon" }, { would_deny: 7, network: "198.51.100.0/24" }].map((more) => event(more));
      expect((await send(batch([...events, ...others]))).body.accepted).toBe(wrong.length + 2);
      expect(await rows()).toEqual([["unknown", "refused", wrong.length]]);
    });

    it("are at most 100 a day and key, further ones count as other; a repeated batch counts once", async () => {
      const network = (i: number): string => `198.51.${i}.0/24`;
      const first = batch(Array.from({ length: 60 }, (_, i) => event(refused(network(i)))));
      await send(first);
      await send(first);
      instance.clock.advance(60_000);
      const second = [...Array.from({ length: 50 }, (_, i) => event(refused(network(50 + i)))), event(refused(null))];
      await send(batch([...second, ...Array.from({ length: 10 }, (_, i) => event(refused(network(200 + i))))]));
      instance.clock.advance(60_000);
      await send(batch([event(refused(network(250))), event(refused(network(0))), event(noted(network(251)))]));
      const shown = await rows();
      expect(shown).toHaveLength(100);
      expect(shown.slice(0, 2)).toEqual([
        ["other", "refused", 11],
        [network(0), "refused", 2],
      ]);
      expect(shown.filter(([name]) => name === network(250))).toEqual([]);
      expect(new Set((await stored()).map((row) => row.network)).size).toBe(102);
    });

    it("are at most 100 a day and key, also when batches arrive at once at several processes", async () => {
      await using beside = backend === "postgres" ? await testInstance(backend, { beside: instance }) : null;
      const network = (i: number): string => `198.51.${i}.0/24`;
      const some = (from: number, count: number) =>
        batch(Array.from({ length: count }, (_, i) => event(refused(network(from + i)))));
      await send(some(0, 60));
      instance.clock.advance(60_000);
      const sent = [60, 80, 100, 120].map((from, i) =>
        (i % 2 === 0 ? instance : (beside ?? instance)).call(
          workspace.keys.sk_owner,
          "POST /v1/ingest/batch",
          some(from, 20),
        ),
      );
      expect((await Promise.all(sent)).map(({ status }) => status)).toEqual([202, 202, 202, 202]);
      const found = await stored();
      expect(found.filter((row) => row.network !== "other")).toHaveLength(100);
      expect(found.filter((row) => row.network === "other").map(({ requests }) => requests)).toEqual([40]);
    });

    it("are deleted in short transactions, however many there are", async () => {
      await using fixture = await testServices(backend); // without the job that deletes them too
      const { services } = fixture;
      const { workspace_id } = (await vendorOf(services)).actor;
      const old = (n: number): string => `('key-${n}', 0, '198.51.100.0/24', 'refused', '${workspace_id}', 1, 0, 0)`;
      const columns = "key_id, day, network, outcome, workspace_id, requests, first_seen_at, last_seen_at";
      const values = Array.from({ length: 1_500 }, (_, n) => old(n)).join();
      await fixture.sql(`insert into key_networks (${columns}) values ${values}`);
      const { store } = services;
      const write = vi.fn<Store["write"]>((job) => store.write(job));
      const counting = Object.create(store, { write: { value: write } }) as Store;
      expect(await reapKeyNetworks({ ...services, store: counting })).toBe(1_500);
      expect(write).toHaveBeenCalledTimes(2);
    });

    it("are kept for 30 days, and read for as many as asked", async () => {
      await send(batch([event(refused("198.51.100.0/24"))]));
      instance.clock.advance(DAY);
      await send(batch([event(refused("203.0.113.0/24"))]));
      expect([(await rows(1)).length, (await rows(2)).length]).toEqual([1, 2]);
      instance.clock.advance(28 * DAY);
      await reapKeyNetworks(instance.app.services);
      expect(await rows(30)).toHaveLength(2);
      instance.clock.advance(DAY);
      expect(await rows(30)).toHaveLength(1);
      await reapKeyNetworks(instance.app.services);
      expect((await stored()).map((row) => row.network)).toEqual(["203.0.113.0/24"]);
      for (const days of ["0", "31", "x"])
        expectRefusal(
          await workspace.call("sk_owner", `GET /v1/keys/${key.id}/ip_report?days=${days}`),
          400,
          "invalid_request",
        );
    });

    it("have the mode of the list that applies, and none without a list", async () => {
      expect((await report()).mode).toBeNull();
      await workspace.call("sk_owner", `PATCH /v1/tenants/${workspace.tenant_id}`, { allowed_cidrs: ["10.0.0.0/8"] });
      expect((await report()).mode).toBe("enforce");
      await workspace.call("sk_owner", `PATCH /v1/keys/${key.id}`, { allowed_cidrs: [] });
      expect((await report()).mode).toBeNull();
    });
  });
}
