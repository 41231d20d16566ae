// Where a key was last used from: what nodes report of it, who sees it, and when it is deleted.
import { beforeEach, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { DAY, ingestFixture, iso } from "../../../harness/instances/ingest.ts";
import {
  expectRefusal,
  type Json,
  type TestInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { reapLastUses } from "../../../src/domain/usage/last-use.ts";
import { lastUsesOf } from "../../../src/store/queries/last-uses.ts";

const PUBLIC = "203.0.113.0/24";

for (const backend of runBackends) {
  describe(`last use on ${backend}`, () => {
    const { now, event, batch, send } = ingestFixture(backend);
    let instance: TestInstance;
    let workspace: Workspace;
    let key: { id: string };
    beforeEach(() => {
      ({ instance, workspace, key } = now());
    });
    const show = async (id = key.id): Promise<Json> =>
      (await workspace.call("sk_owner", `GET /v1/keys/${id}?include=last_used`)).body;
    const stored = (id = key.id) => lastUsesOf(instance.app.services.store.read, workspace.id, [id]);
    const ignored = () => ({ ...instance.app.services.counts.series.ignored });

    it("is that of the newest event with one of the fields, whatever the order of reports", async () => {
      expect((await show()).last_used).toBeNull();
      const at = instance.clock.now();
      const events = [
        event({ ts: iso(at - 3_000), network: PUBLIC, user_agent: "curl" }),
        event({ ts: iso(at - 1_000), network: "2001:db9:1::/48", user_agent: "okhttp" }),
        event({ ts: iso(at - 2_000), network: PUBLIC }),
        event({ ts: iso(at) }),
      ];
      expect((await send(batch(events))).body.accepted).toBe(4);
      const newest = { network: "2001:db9:1::/48", user_agent: "okhttp", node_id: "node-1" };
      expect((await show()).last_used).toEqual({ at: iso(at - 1_000), ...newest });
      await send(batch([event({ ts: iso(at - 1_500), network: PUBLIC, user_agent: "late" })]));
      expect((await show()).last_used).toMatchObject(newest);
      await send(batch([event({ ts: iso(at - 500), network: null, user_agent: "inside" })]));
      expect((await show()).last_used).toMatchObject({ network: null, user_agent: "inside" });
    });

    it("takes networks and product names only; a malformed field is counted and never refuses a batch", async () => {
      const before = ignored();
      const networks = ["203.0.113.7", "203.0.113.7/32", "203.0.113.0/25", 7, {}];
      const local = ["10.0.0.0/24", "::/48", "fe80::/48"]; // as of refused requests: right, but not shown
      const agents = ["curl/8.1", "a b", "x".repeat(33), "\u001b[2J", "", 7];
      const events = [
        ...[...networks, ...local].map((network) => ({ network })),
        ...agents.map((user_agent) => ({ user_agent })),
      ];
      expect((await send(batch(events.map(event)))).body.accepted).toBe(events.length);
      expect(await stored()).toEqual([]);
      const after = ignored();
      expect([after.network, after.user_agent]).toEqual([
        (before.network ?? 0) + networks.length,
        (before.user_agent ?? 0) + agents.length,
      ]);
      await send(batch([event({ network: "nonsense", user_agent: "curl" })]));
      expect((await show()).last_used).toMatchObject({ network: null, user_agent: "curl" });
    });

    it("is on lists that ask for it, which are paged by cursor, and on nothing else", async () => {
      const other = await workspace.mint();
      await send(batch([event({ network: PUBLIC, user_agent: "curl" })]));
      const page = async (query: string) => (await workspace.call("sk_owner", `GET /v1/keys?${query}`)).body;
      const first = await page("include=last_used&limit=1");
      expect((first.data as Json[]).map(({ id, last_used }) => [id, last_used])).toEqual([[other.id, null]]);
      const second = await page(`include=last_used&limit=1&cursor=${String(first.next_cursor)}`);
      expect((second.data as Json[]).map(({ id }) => id)).toEqual([key.id]);
      expect((second.data as Json[])[0]?.last_used).toMatchObject({ network: PUBLIC, user_agent: "curl" });
      expect(second.next_cursor).toBeNull();
      const refusals = [
        `include=last_used&after=${other.id}`,
        `limit=1&sort=created_at&cursor=${String(first.next_cursor)}`,
        "include=effective",
        "include=",
      ];
      for (const query of refusals)
        expectRefusal(await workspace.call("sk_owner", `GET /v1/keys?${query}`), 400, "invalid_request");
      expect((await page("limit=1")).data).not.toEqual([expect.objectContaining({ last_used: expect.anything() })]);
      const both = (await workspace.call("sk_owner", `GET /v1/keys/${key.id}?include=effective,last_used`)).body;
      expect(both).toMatchObject({ effective: { plan_id: null }, last_used: { network: PUBLIC } });
      const plain = (await workspace.call("sk_owner", `GET /v1/keys/${key.id}`)).body;
      expect(plain).not.toHaveProperty("last_used");
      for (const include of ["last_used,moon", "moon", "last_used,", "last_used,effective,last_used"])
        expectRefusal(
          await workspace.call("sk_owner", `GET /v1/keys/${key.id}?include=${include}`),
          400,
          "invalid_request",
        );
    });

    it("of a live key is hidden from test secret keys, and of another workspace from everyone else", async () => {
      await send(batch([event({ network: PUBLIC, user_agent: "curl" })]));
      expectRefusal(await workspace.call("sk_test", `GET /v1/keys/${key.id}?include=last_used`), 404, "not_found");
      expect((await workspace.call("sk_test", "GET /v1/keys?include=last_used")).body.data).toEqual([]);
      const foreign = await instance.workspace();
      expectRefusal(await foreign.call("sk_owner", `GET /v1/keys/${key.id}?include=last_used`), 404, "not_found");
      expect(await lastUsesOf(instance.app.services.store.read, foreign.id, [key.id])).toEqual([]);
    });

    it("is deleted 90 days after the key was revoked or has expired", async () => {
      const [revoked, expired] = [
        await workspace.mint(),
        await workspace.mint({ expires_at: iso(instance.clock.now() + DAY) }),
      ];
      const used = { network: PUBLIC, user_agent: "curl" };
      await send(batch([event(used), ...[revoked, expired].map(({ id }) => event({ ...used, key_id: id }))]));
      await workspace.call("sk_owner", `POST /v1/keys/${revoked.id}/revoke`, {});
      const left = async () => (await Promise.all([key, revoked, expired].map(({ id }) => stored(id)))).flat().length;
      instance.clock.advance(89 * DAY);
      await reapLastUses(instance.app.services);
      expect(await left()).toBe(3);
      instance.clock.advance(DAY);
      await reapLastUses(instance.app.services);
      expect([await left(), await stored(revoked.id)]).toEqual([2, []]);
      instance.clock.advance(DAY);
      await reapLastUses(instance.app.services);
      expect([await left(), (await stored()).length]).toEqual([1, 1]);
    });

    it("is neither stored nor shown where the setting is off, and what is stored is deleted", async () => {
      await send(batch([event({ network: PUBLIC, user_agent: "curl" })]));
      const { settings } = instance.app.services;
      Object.assign(settings, { last_used_detail: false });
      try {
        expect((await show()).last_used).toBeNull();
        await send(batch([event({ network: PUBLIC, user_agent: "wget" })]));
        // The job that deletes may already have run by itself.
        expect((await stored()).map(({ user_agent }) => user_agent)).not.toContain("wget");
        await reapLastUses(instance.app.services);
        expect(await stored()).toEqual([]);
      } finally {
        Object.assign(settings, { last_used_detail: true });
      }
    });
  });
}
