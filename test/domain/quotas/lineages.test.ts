// Keys that rotation made share a balance, but each has its own quotas: what is spent is common, the amount and whether
// it denies are those of the key that asks.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedServices } from "../../../harness/instances/test-services.ts";
import { MeteredWorld, quotaOf } from "../../../harness/ratelimit/metered.ts";
import { editKey } from "../../../src/domain/keys/edits.ts";
import { rotateKey } from "../../../src/domain/keys/key-rotation.ts";
import { readDefinition } from "../../../src/domain/quotas/definitions.ts";
import { createGrant, voidGrant } from "../../../src/domain/quotas/grants.ts";
import type { Quota } from "../../../src/kernel/quotas/quota.ts";

const small = quotaOf({ amount: 10 });
const large = quotaOf({ amount: 1_000 });
const report = quotaOf({ amount: 10, overage: "report" });

for (const backend of runBackends) {
  describe(`keys of one rotation with different quotas on ${backend}`, () => {
    const shared = sharedServices(backend);

    /** A key and its successor, whose quota was changed. */
    const pair = async (old: Quota, changed: Quota) => {
      const first = await MeteredWorld.create(shared().services, { key: [old] });
      const successor = await rotateKey(first.ctx, first.key_id, 24);
      const second = new MeteredWorld(first.ctx, { ...first, key_id: successor.id });
      await editKey(first.ctx, second.key_id, { quotas: [changed] });
      return [first, second] as const;
    };
    const stateOf = async (key: MeteredWorld, cost = 1) => {
      const { allowed, quotas } = await key.check({ cost });
      const { amount, remaining } = quotas[0]!;
      return { allowed, amount, remaining };
    };

    it("are refused at their own amount, and only there", async () => {
      const [limited, upgraded] = await pair(small, large);
      expect(await stateOf(upgraded)).toEqual({ allowed: true, amount: 1_000, remaining: 999 });
      for (let left = 8; left >= 0; left--)
        expect(await stateOf(limited)).toEqual({ allowed: true, amount: 10, remaining: left });
      for (let spent = 11; spent < 14; spent++) {
        expect(await stateOf(limited)).toEqual({ allowed: false, amount: 10, remaining: 0 });
        expect(await stateOf(upgraded)).toEqual({ allowed: true, amount: 1_000, remaining: 1_000 - spent });
      }
      expect(await limited.balance()).toMatchObject({ amount: 10, spent: 13, remaining: 0, exceeded: true });
      expect(await upgraded.balance()).toMatchObject({ amount: 1_000, spent: 13, remaining: 987, exceeded: false });
    });

    it("are not admitted beyond it by what another key has taken", async () => {
      const [generous, lowered] = await pair(large, small);
      await lowered.check();
      await generous.check();
      expect(await stateOf(lowered, 500)).toEqual({ allowed: false, amount: 10, remaining: 8 });
      expect(await stateOf(lowered, 8)).toEqual({ allowed: true, amount: 10, remaining: 0 });
      expect(await lowered.balance()).toMatchObject({ spent: 10, remaining: 0 });
    });

    it("deny or report as their own quota says", async () => {
      const [reporting, denying] = await pair(report, quotaOf({ amount: 5 }));
      expect(await reporting.admitted(3)).toBe(3);
      expect(await denying.admitted(20)).toBe(2);
      expect(await reporting.admitted(20)).toBe(20);
      expect(await denying.admitted(20)).toBe(0);
      expect(await reporting.balance()).toMatchObject({ spent: 25, exceeded: true });
    });

    it("are refused without taking the units away that another key can spend", async () => {
      const [limited, upgraded] = await pair(small, quotaOf({ amount: 1_000_000 }));
      const { services, actor } = limited.ctx;
      const subject = {
        workspace_id: actor.workspace_id,
        key_id: limited.key_id,
        tenant_id: null,
        env: "live",
      } as const;
      const { metered } = (await readDefinition(services.store.read, subject))!;
      expect(await upgraded.admitted(20)).toBe(20);
      const holding = services.quotas.find(metered[0]!)!;
      const before = holding.transactions;
      for (let i = 0; i < 10; i++) expect([await limited.admitted(1), await upgraded.admitted(1)]).toEqual([0, 1]);
      expect(holding.transactions - before).toBe(1); // the first refusal reads the balance
    });

    it("admit no more than their amount when they are used at the same time", async () => {
      const [generous, lowered] = await pair(large, small);
      const both = await Promise.all([generous.admitted(100), lowered.admitted(100)]);
      expect([both[0], both[1] <= 10]).toEqual([100, true]);
      expect(await generous.balance()).toMatchObject({ spent: both[0] + both[1] });
    });

    it("get leases within their own amount, and nothing beyond it of those of another key", async () => {
      const [generous, lowered] = await pair(large, small);
      expect(await lowered.admitted(1)).toBe(1);
      const leases = [await generous.lease(15), await generous.lease(15)];
      expect(leases[1]!.granted).toBe(15);
      expect((await lowered.lease(15)).granted).toBe(0);
      for (const { lease_id, granted } of leases) await generous.return(lease_id, granted);
      let granted = 0;
      for (let i = 0; i < 20; i++) granted += (await lowered.lease(15)).granted;
      expect(granted).toBe(9);
      expect(await generous.balance()).toMatchObject({ spent: 1, held: 9, remaining: 990 });
    });

    it("spend the grants of the balance, whatever their amounts are", async () => {
      const [generous, lowered] = await pair(large, small);
      expect(await generous.admitted(20)).toBe(20);
      expect(await lowered.admitted(1)).toBe(0);
      const target = { scope: "key", key_id: generous.key_id, quota_id: small.id } as const;
      await createGrant(generous.ctx, target, { units: 5 });
      expect(await lowered.admitted(10)).toBe(5);
      expect(await generous.balance()).toMatchObject({ spent: 25, granted: 0, remaining: 980 });
    });

    it("spend nothing of a voided grant, whatever the calendars are and which key still has the quota", async () => {
      const none = quotaOf({ amount: 0 });
      for (const changed of [quotaOf({ amount: 0, refill: "daily" }), none]) {
        const [first, second] = await pair(none, changed);
        const target = { scope: "key", key_id: first.key_id, quota_id: none.id } as const;
        const { grant } = await createGrant(first.ctx, target, { units: 64_000 });
        expect(await stateOf(second)).toEqual({ allowed: true, amount: 0, remaining: 63_999 });
        if (changed === none) await editKey(first.ctx, first.key_id, { quotas: null });
        await voidGrant(first.ctx, grant.id);
        expect(await stateOf(second)).toEqual({ allowed: false, amount: 0, remaining: 0 });
      }
    });

    it("spend a new grant at once, whatever the calendar of each is", async () => {
      const [first, second] = await pair(quotaOf({ amount: 0 }), quotaOf({ amount: 0, refill: "daily" }));
      expect(await second.admitted(1)).toBe(0);
      await createGrant(first.ctx, { scope: "key", key_id: first.key_id, quota_id: small.id }, { units: 2 });
      expect(await second.admitted(3)).toBe(2);
    });

    it.runIf(backend === "postgres")("admit no more than their amount over several processes", async () => {
      const [generous, lowered] = await pair(large, small);
      await using other = await shared().another();
      const [there, fromThere] = [generous.in(other.services), lowered.in(other.services)];
      const admitted = [];
      for (let i = 0; i < 6; i++) {
        await Promise.all([generous.check(), there.check()]);
        admitted.push(await lowered.admitted(3), await fromThere.admitted(3));
      }
      expect(admitted.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(10);
      expect((await generous.check({ cost: 900 })).allowed).toBe(true);
    });
  });
}
