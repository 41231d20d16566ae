// The short version of `npm run prove -- feed`: a node converges to the policy in the database.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AT_ONCE, FEED_FLAGS, runFeedSequence } from "../../../harness/models/feed.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { ROUNDS } from "../../../harness/rounds.ts";

const SEQUENCES = 2 * ROUNDS;

for (const backend of backends) {
  describe(`feed convergence on ${backend}`, () => {
    let fixture: TestServices;
    beforeAll(async () => {
      fixture = await testServices(backend, { flags: FEED_FLAGS });
    });
    afterAll(() => fixture[Symbol.asyncDispose]());

    const count = backend === "sqlite" ? SEQUENCES : SEQUENCES / 2;
    it(`a node has the policy of the database at every quiescent point of ${count} sequences`, {
      timeout: 600_000,
    }, async () => {
      const ctx = await vendorOf(fixture.services);
      for (let seed = 1; seed <= count; seed += AT_ONCE) {
        const seeds = Array.from({ length: Math.min(AT_ONCE, count - seed + 1) }, (_none, i) => seed + i);
        await expect(Promise.all(seeds.map((each) => runFeedSequence(ctx, fixture, each)))).resolves.toHaveLength(
          seeds.length,
        );
      }
    });
  });
}
