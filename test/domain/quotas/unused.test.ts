// A balance that nothing uses any more costs neither memory nor writes.
import { describe, expect, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { testServices } from "../../../harness/instances/test-services.ts";
import { MeteredWorld, quotaOf } from "../../../harness/ratelimit/metered.ts";

for (const back of backends)
  describe(`a balance that nothing uses on ${back}`, () => {
    it("is given back and dropped, and written no more", async () => {
      await using fixture = await testServices(back);
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
  });
