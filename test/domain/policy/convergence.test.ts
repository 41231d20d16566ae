// The short version of `npm run prove -- feed`: a node holds what the database says, on each database.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AT_ONCE, FEED_FLAGS, runFeedSequence } from "../../../harness/models/feed.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";

const SEQUENCES = 200;

for (const back of backends) {
  describe(`feed convergence on ${back}`, () => {
    let lite: TestServices;
    beforeAll(async () => {
      lite = await testServices(back, { flags: FEED_FLAGS });
    });
    afterAll(() => lite[Symbol.asyncDispose]());

    const count = back === "sqlite" ? SEQUENCES : SEQUENCES / 2;
    it(`a node holds what the database says at every quiet point of ${count} sequences`, {
      timeout: 600_000,
    }, async () => {
      const ctx = await vendorOf(lite.services);
      for (let seed = 1; seed <= count; seed += AT_ONCE) {
        const some = Array.from({ length: Math.min(AT_ONCE, count - seed + 1) }, (_none, i) => seed + i);
        await expect(Promise.all(some.map((each) => runFeedSequence(ctx, lite, each)))).resolves.toHaveLength(
          some.length,
        );
      }
    });
  });
}
