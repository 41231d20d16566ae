// A balance that nothing uses any more costs neither memory nor writes, and unused units of a lease come back.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices } from "../../../harness/instances/test-services.ts";
import { MeteredWorld, quotaOf } from "../../../harness/ratelimit/metered.ts";
import { QuotaLeases } from "../../../src/domain/quotas/leases.ts";
import { Ledger } from "../../../src/fairness/ledger.ts";
import { cellOwner } from "../../../src/fairness/owners.ts";

for (const backend of runBackends)
  describe(`a balance on ${backend}`, () => {
    it("that nothing uses is given back and dropped, and written no more", async () => {
      await using fixture = await testServices(backend);
      const { quotas, store } = fixture.services;
      const metered = await MeteredWorld.create(fixture.services, { key: [quotaOf({ amount: 640 })] });
      await metered.check();
      expect(quotas.size).toBe(1);
      fixture.clock.advance(10_000);
      await quotas.sweep();
      await quotas.sweep();
      expect(quotas.size).toBe(0);
      const before = store.stats.jobs;
      await quotas.sweep();
      expect(store.stats.jobs - before).toBeLessThanOrEqual(1); // that the process lives
      expect(await metered.balance()).toMatchObject({ spent: 1, remaining: 639 });
    });

    it("gets the units of a lease back while leases of rate limits fill their bound", async () => {
      await using fixture = await testServices(backend);
      const ledger = fixture.services.shares.of("leases");
      for (let i = 0; i < 10; i++) ledger.take(cellOwner(`other-${i}`, "live"), ledger.limits.bound / 10);
      const metered = await MeteredWorld.create(fixture.services, { key: [quotaOf()] });
      const { lease_id, granted } = await metered.lease(5);
      expect([granted, (await metered.return(lease_id, 5)).returned]).toEqual([5, 5]);
      expect(await metered.balance()).toMatchObject({ spent: 0 });
    });

    it("gets the newest leases of an owner at its share back", async () => {
      const owner = cellOwner("w", "live");
      const leases = new QuotaLeases(new Ledger({ bound: 10, share: 2 }));
      const lease = { workspace_id: "w", granted: 1, end: 1_000, charges: [] };
      for (const id of ["oldest", "older", "newest"]) await leases.lend(owner, { ...lease, id }, 0);
      const returned = ["oldest", "older", "newest"].map((id) => leases.return("w", id, 1, 0).units);
      expect(returned).toEqual([0, 1, 1]);
    });
  });
