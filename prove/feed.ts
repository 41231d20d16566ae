// Policy feed convergence in the long run: seeded project lifetimes, polled by model nodes (harness/models/feed.ts).
import { openTestServices, testClock, vendorOf } from "../harness/instances/services.ts";
import { AT_ONCE, FEED_FLAGS, runFeedSequence, STEPS } from "../harness/models/feed.ts";
import { rounds, type Campaign } from "./campaign.ts";

/** A workspace limits its projects and tenants, so every few sequences a new workspace is used. */
const SEQUENCES_A_WORKSPACE = 40;

export const feed: Campaign = {
  name: "feed",
  promise: "P6",
  claim: "A node that polls holds exactly what the database says.",
  rounds: 100_000,
  round: `a project's life of ${STEPS} steps`,
  backends: ["sqlite", "postgres"],
  async run(options, tally) {
    const { scratch } = options;
    const flags = { data_dir: scratch.dir, ...FEED_FLAGS };
    await using fixture = await openTestServices(scratch.target, flags, testClock());
    const seeds = [...rounds(options, tally)];
    let ctx = await vendorOf(fixture.services);
    for (let i = 0; i < seeds.length && !tally.hopeless; i += AT_ONCE) {
      if (i % SEQUENCES_A_WORKSPACE === 0) ctx = await vendorOf(fixture.services);
      const some = seeds.slice(i, i + AT_ONCE);
      const tried = some.map((seed) =>
        runFeedSequence(ctx, fixture, seed).catch((error: Error) => tally.failed(seed, error.message)),
      );
      await Promise.all(tried);
      tally.count("steps", some.length * STEPS);
      if (i % 1_000 === 0) options.print(`seed ${some[0]}`);
    }
  },
};
