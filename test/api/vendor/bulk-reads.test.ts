// What a bulk action reads to find its keys: how many of them a call examines, and where.
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { expectNoScan } from "../../../harness/databases/plans.ts";
import { expectRefusal, sharedInstance, type Json, type Workspace } from "../../../harness/instances/test-instance.ts";
import { COUNTED_HERE_MAX, EXAMINED_MAX } from "../../../src/domain/keys/bulk.ts";
import { fail } from "../../../src/kernel/errors.ts";
import { countEligible, eligibleKeys, rangeEnd } from "../../../src/store/queries/key-bulk.ts";

for (const backend of runBackends) {
  describe(`the reads of a bulk action on ${backend}`, () => {
    const instance = sharedInstance(backend);

    const bulk = (w: Workspace, body: object) => w.call("sk_owner", "POST /v1/bulk/keys", body);
    const COPIED = "workspace_id, project_id, tenant_id, env, display_prefix, scopes, meta, policy_version";
    /** Copies of a key with numbers of their own. */
    const copyKey = (id: string, from: number, to: number): Promise<unknown> =>
      instance.sql(`with recursive n(i) as (select ${from} union all select i + 1 from n where i < ${to})
        insert into api_keys (id, lookup_hash, created_at, ${COPIED})
        select '01900000' || substr('${id}', 9, 16) || cast(100000000000 + i as text), '${id}' || cast(i as text), ${instance.clock.now()}, ${COPIED}
        from n, api_keys where api_keys.id = '${id}'`);
    const idsOf = (data: Json[]): unknown[] => data.map(({ id }) => id);

    it("examines a bounded range a call: a page may be empty before the end", async () => {
      const w = await instance.workspace();
      const seed = await w.mint();
      await copyKey(seed.id, 1, EXAMINED_MAX);
      instance.clock.advance(1);
      const rare = await w.mint({ scopes: ["rare"] });
      const request = { action: "disable", filter: { scope: "rare" }, dry_run: true };
      const first = (await bulk(w, request)).body;
      expect([first.matched, first.data, typeof first.next_cursor]).toEqual([1, [], "string"]);
      expectRefusal(
        await bulk(w, { ...request, filter: { all: true }, expect: EXAMINED_MAX }),
        409,
        "conflict",
        "expect",
      );
      const second = (await bulk(w, { ...request, cursor: first.next_cursor })).body;
      expect([idsOf(second.data), second.next_cursor]).toEqual([[rare.id], null]);
    });

    it("examines many keys in a slot, and what is costly or counts very many on another thread", async () => {
      const w = await instance.workspace();
      const seed = await w.mint();
      const { fleet, threads } = instance.app.services.readSlots;
      const [slot, thread] = [vi.spyOn(fleet, "run"), vi.spyOn(threads, "run")];
      onTestFinished(() => [slot, thread].forEach((spy) => spy.mockRestore()));
      const runs = async (request: object): Promise<[matched: number, slots: number, threads: number]> => {
        slot.mockClear();
        thread.mockClear();
        const { matched } = (await bulk(w, { dry_run: true, filter: { all: true }, ...request })).body;
        return [matched, slot.mock.calls.length, thread.mock.calls.length];
      };
      expect(await runs({ action: "disable" })).toEqual([1, 0, 0]);
      await copyKey(seed.id, 1, EXAMINED_MAX);
      expect(await runs({ action: "disable" })).toEqual([EXAMINED_MAX + 1, 1, 0]);
      expect(await runs({ action: "disable", filter: { ids: [seed.id] } })).toEqual([1, 0, 0]);
      for (const costly of [{ action: "rotate" }, { action: "revoke", filter: { scope: "rare" } }])
        expect((await runs(costly)).slice(1)).toEqual([0, 1]);
      slot.mockRejectedValueOnce(fail("share_full"));
      expectRefusal(await bulk(w, { action: "disable", filter: { all: true } }), 503, "unavailable");
      expect((await w.call("sk_owner", `GET /v1/keys/${seed.id}`)).body.disabled_at).toBeNull();
      await copyKey(seed.id, EXAMINED_MAX + 1, COUNTED_HERE_MAX);
      expect(await runs({ action: "disable" })).toEqual([COUNTED_HERE_MAX + 1, 0, 1]);
    });

    it("reads through an index, and named keys by their ids", async () => {
      const w = await instance.workspace();
      const after = { created_at: 1, id: "i" };
      const selections = (["rotate", "enable"] as const).flatMap((action) =>
        [{}, { tenant_ids: ["t"] }, { projects: ["p"], scope: "s" }].map((filter) => {
          return { workspace_id: w.id, action, now: 1, before: "k", ...filter };
        }),
      );
      await expectNoScan(instance.target, async (on) => {
        for (const selection of selections) {
          await rangeEnd(on, selection, after, 5);
          await eligibleKeys(on, selection, { after, upTo: after }, 5);
          await countEligible(on, selection, { after, upTo: after });
        }
      });
      const range = { after, upTo: null };
      const named = { workspace_id: w.id, action: "revoke", now: 1, before: "k", ids: ["i", "j"] } as const;
      for (const filter of [{}, { project_id: w.project_id }, { tenant_ids: [w.tenant_id] }]) {
        const plan = await expectNoScan(instance.target, (on) => eligibleKeys(on, { ...named, ...filter }, range, 5));
        if (backend === "sqlite") expect(plan).toContain("sqlite_autoindex_api_keys_1");
        expect(plan).not.toContain("Join Filter"); // the list would be compared with every key of the project
      }
    });
  });
}
