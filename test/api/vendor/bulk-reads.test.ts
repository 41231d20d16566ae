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
    const idsOf = (data: Json[]): unknown[] => data.map(({ id }) => id);

    it("examines a bounded range a call: a page may be empty before the end", async () => {
      const w = await instance.workspace();
      const copied = `workspace_id, project_id, tenant_id, env, display_prefix, scopes, meta, policy_version`;
      const seed = await w.mint();
      const copySeed = (from: number, to: number): Promise<unknown> =>
        instance.sql(`with recursive n(i) as (select ${from} union all select i + 1 from n where i < ${to})
        insert into api_keys (id, lookup_hash, created_at, ${copied})
        select '01900000-0000-7000-8000-' || cast(100000000000 + i as text), '${w.id}' || cast(i as text), ${instance.clock.now()}, ${copied}
        from n, api_keys where api_keys.id = '${seed.id}'`);
      await copySeed(1, EXAMINED_MAX);
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
      const { fleet, threads } = instance.app.services.readSlots;
      const slot = vi.spyOn(fleet, "run").mockRejectedValue(fail("unavailable"));
      onTestFinished(() => slot.mockRestore());
      expectRefusal(await bulk(w, request), 503, "unavailable"); // many are examined in a slot
      const few = { action: "disable", filter: { ids: [rare.id] }, dry_run: true };
      expect((await bulk(w, few)).body.matched).toBe(1);
      slot.mockRestore();
      const thread = vi.spyOn(threads, "run");
      expect((await bulk(w, request)).body.matched).toBe(1);
      expect(thread).not.toHaveBeenCalled();
      await copySeed(EXAMINED_MAX + 1, COUNTED_HERE_MAX);
      expect((await bulk(w, request)).body.matched).toBe(1); // very many are counted on another thread
      expect(thread).toHaveBeenCalledOnce();
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
