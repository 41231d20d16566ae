// Units that wait to go back to a database without room for the write: an owner with many of them costs no other its
// own.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices, vendorOf } from "../../../harness/instances/test-services.ts";
import { quotaOf } from "../../../harness/ratelimit/metered.ts";
import { ownerOf } from "../../../src/domain/core/actor.ts";
import { QuotaBank } from "../../../src/domain/quotas/bank.ts";
import { Ledger } from "../../../src/fairness/ledger.ts";
import { fail } from "../../../src/kernel/errors.ts";
import type { Store } from "../../../src/store/store.ts";

for (const backend of runBackends)
  describe(`units that wait to go back on ${backend}`, () => {
    it("are not lost to another owner that has more of them waiting", async () => {
      await using fixture = await testServices(backend);
      const { store, clock, log } = fixture.services;
      let isFull = false;
      const write: Store["write"] = (job) => (isFull ? Promise.reject(fail("share_full")) : store.write(job));
      const ledger = (bound: number): Ledger => new Ledger({ bound, share: bound });
      const ledgers = { definitions: ledger(1), balances: ledger(0), leases: ledger(1), returns: ledger(2) };
      const full = Object.create(store, { write: { value: write }, onNotice: { value: () => {} } }) as Store;
      const quotas = new QuotaBank({ store: full, clock, log, ...ledgers });
      const [stranger, victim] = [(await vendorOf(fixture.services)).actor, (await vendorOf(fixture.services)).actor];
      const take = async (actor: typeof victim, subject_id: string) => {
        const metered = { scope: "key", source: "key", subject_id, env: "live", quota: quotaOf() } as const;
        const holding = quotas.open(ownerOf(actor), actor.workspace_id, metered);
        await quotas.fetch({ metered, holding }, 1);
        return holding;
      };
      const holdings = [
        await take(stranger, "a"),
        await take(stranger, "b"),
        await take(stranger, "c"),
        await take(victim, "victim"),
      ];
      isFull = true;
      for (const holding of holdings) await quotas.giveBack(holding);
      isFull = false;
      await quotas.sweep();
      const rows = await fixture.sql("select subject_id from quota_balances where taken > 0 order by subject_id");
      expect(rows.map((row) => row["subject_id"])).toEqual(["a", "c"]);
    });
  });
