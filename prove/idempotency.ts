// Idempotency: long random sequences compared with the model, and concurrent claimants.
import * as fc from "fast-check";
import { rounds, type Campaign } from "./campaign.ts";
import { contend, databaseStore, redisStore, runSequence, sequences } from "../harness/models/idempotency.ts";
import { openTestServices, testClock } from "../harness/instances/services.ts";
import { seeded } from "../harness/random.ts";

const COMMANDS = 50;
const CRASH_ONE_IN = 100;

export const idempotency: Campaign = {
  name: "idempotency",
  promise: "P4",
  claim: "A scope has at most one live execute, and every result is the model's.",
  rounds: 100_000,
  round: `a sequence of up to ${COMMANDS} commands and a crowd of claimants`,
  backends: ["sqlite", "postgres", "redis"],
  async run(options, tally) {
    const { scratch, backend } = options;
    await using fixture = await openTestServices(scratch.target, { data_dir: scratch.dir }, testClock());
    const store = await (backend === "redis" ? redisStore : databaseStore)(fixture);
    try {
      const other = await store.beside();
      const property = fc.asyncProperty(sequences(COMMANDS, CRASH_ONE_IN), (sequence) => runSequence(store, sequence));
      for (const seed of rounds(options, tally)) {
        const run = await fc.check(property, { seed, numRuns: 1, endOnFailure: true });
        if (run.failed) tally.failed(seed, `${fc.stringify(run.counterexample)}: ${String(run.errorInstance)}`);
        const crowd = Array.from({ length: seeded(seed).int(2, 64) }, (_, i) => (i % 2 === 0 ? store.ctx : other));
        const wrong = await contend(crowd, `crowd ${seed}`);
        if (wrong !== null) tally.failed(seed, `of ${crowd.length} claimants at once ${wrong}`);
        tally.count("concurrent claims", crowd.length);
        if (seed % 1_000 === 0) options.print(`seed ${seed}`);
      }
      tally.figures.crashes = store.crashes;
    } finally {
      await store.close();
    }
  },
};
