// Units of quotas where the process has no room for their balances, or the database none for what gives them back.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { MeteredWorld, quotaOf } from "../../../harness/ratelimit/metered.ts";
import { sharedServices } from "../../../harness/instances/test-services.ts";
import { ownerOf } from "../../../src/domain/core/actor.ts";
import type { Services } from "../../../src/domain/core/context.ts";
import { QuotaBank } from "../../../src/domain/quotas/bank.ts";
import { Ledger } from "../../../src/fairness/ledger.ts";
import { fail } from "../../../src/kernel/errors.ts";
import type { RateLimit } from "../../../src/kernel/ratelimit/rule.ts";
import type { Counter, Verdict } from "../../../src/ratelimit/counter.ts";
import type { Store } from "../../../src/store/store.ts";

const rule: RateLimit = { id: "burst", limit: 3, window_ms: 60_000, algorithm: "fixed", scope: "key" };

for (const backend of backends) {
  describe(`units of quotas on ${backend}`, () => {
    const shared = sharedServices(backend);
    const world = MeteredWorld.creatorIn(shared);

    /** Units that processes have taken, as the database has it. */
    const takenOf = async (...subjects: string[]): Promise<number[]> => {
      const rows = await shared().sql("select subject_id, taken from quota_balances");
      return subjects.map((id) => Number(rows.find((row) => row["subject_id"] === id)?.["taken"]));
    };
    /** Services with a bank of their own, with room for `room` balances. */
    const withBank = (room: number, write?: Store["write"]): Services => {
      const { clock, log, store: real } = shared().services;
      const replaced = write && { write: { value: write }, onNotice: { value: () => {} } };
      const store = (replaced ? Object.create(real, replaced) : real) as Store;
      const ledger = (bound: number): Ledger => new Ledger({ bound, share: bound });
      const ledgers = { definitions: ledger(100), balances: ledger(room), leases: ledger(100), returns: ledger(100) };
      return { ...shared().services, quotas: new QuotaBank({ store, clock, log, ...ledgers }) };
    };

    it("get all units back of a request that is refused, where there is no room to keep them", async () => {
      const quotas = { key: [quotaOf({ id: "own", amount: 640 })], tenant: [quotaOf({ amount: 640 })] };
      const metered = (await world(quotas)).in(withBank(1));
      for (let i = 0; i < 5; i++) await metered.check({ limits: [rule] });
      await metered.ctx.services.quotas.close();
      await expect.poll(() => takenOf(metered.key_id, metered.tenant_id)).toEqual([3, 3]);
    });

    it("are not lost where the database has no room for what gives them back", async () => {
      const { store } = shared().services;
      let isFull = false;
      const full = () => Promise.reject(fail("share_full"));
      const write: Store["write"] = (job) => (isFull ? full() : store.write(job));
      const services = withBank(10, write);
      const metered = (await world({ key: [quotaOf({ amount: 640 })] })).in(services);
      await metered.check();
      shared().clock.advance(10_000);
      isFull = true;
      await services.quotas.sweep();
      expect(await takenOf(metered.key_id)).toEqual([10]);
      isFull = false;
      await services.quotas.sweep();
      expect(await takenOf(metered.key_id)).toEqual([1]);
    });

    it("are not lost where they are displaced while the database has no room", async () => {
      const { store } = shared().services;
      let isFull = false;
      const write: Store["write"] = (job) => (isFull ? Promise.reject(fail("share_full")) : store.write(job));
      const services = withBank(1, write);
      const quotas = { key: [quotaOf({ amount: 640 })] };
      const [displaced, other] = [(await world(quotas)).in(services), await world(quotas)];
      await displaced.check();
      isFull = true;
      await expect(other.in(services).check()).rejects.toThrow("too many requests");
      await services.quotas.sweep();
      expect(await takenOf(displaced.key_id)).toEqual([10]);
      isFull = false;
      await services.quotas.sweep();
      expect(await takenOf(displaced.key_id)).toEqual([1]);
    });

    it("go back where their balance is displaced while the rate limits decide", async () => {
      const services = withBank(1);
      const verdict = Promise.withResolvers<Verdict>();
      const counter = Object.create(services.counters.counter, { check: { value: () => verdict.promise } }) as Counter;
      const quotas = { key: [quotaOf({ amount: 640 })] };
      const [displaced, other] = [(await world(quotas)).in(services), (await world(quotas)).in(services)];
      await displaced.check();
      const slow = displaced.in({ ...services, counters: { ...services.counters, counter } });
      const refused = slow.check({ cost: 4, limits: [rule] });
      await other.check();
      const states = { policies: [], store: "redis" as const };
      verdict.resolve({ allowed: false, limited_policy: rule.id, retry_after_seconds: 1, ...states });
      expect((await refused).allowed).toBe(false);
      await expect.poll(() => takenOf(displaced.key_id)).toEqual([1]);
    });

    it.runIf(backend === "sqlite")("go back at a clean stop, however many balances there are", async () => {
      const { store } = shared().services;
      const waiting = new Set<Promise<unknown>>();
      const write: Store["write"] = (job) => {
        if (waiting.size >= 200) return Promise.reject(fail("share_full"));
        const done = store.write(job).finally(() => waiting.delete(done));
        waiting.add(done);
        return done;
      };
      const { quotas } = withBank(300, write);
      const { ctx } = await world({});
      for (let i = 0; i < 250; i++) {
        const metered = {
          scope: "key",
          source: "key",
          subject_id: `closing-${i}`,
          env: "live",
          quota: quotaOf(),
        } as const;
        const holding = quotas.open(ownerOf(ctx.actor), ctx.actor.workspace_id, metered);
        await quotas.fetch({ metered, holding }, 1);
      }
      await quotas.close();
      const taken = "select count(*) as n from quota_balances where subject_id like 'closing-%' and taken > 0";
      expect(await shared().sql(taken)).toEqual([{ n: 0 }]);
    });
  });
}
