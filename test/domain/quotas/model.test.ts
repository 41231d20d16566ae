// Random sequences of checks, peeks, leases, returns, grants, voids, owed units, changed amounts, sweeps and times are
// counted as a naive account counts them.
import { describe, it } from "vitest";
import { backends } from "../../../harness/databases/backends.ts";
import { sharedServices } from "../../../harness/instances/test-services.ts";
import { runQuotaModel } from "../../../harness/models/quotas.ts";

const STEPS = 30;

for (const backend of backends)
  describe(`a quota on ${backend}`, () => {
    const shared = sharedServices(backend);

    it.each([1, 2])("is exact in one process, with the seed %i", (seed) => runQuotaModel([shared()], seed, STEPS));

    it.runIf(backend === "postgres")("is exact once two processes have given back what they hold", async () => {
      await using other = await shared().another();
      await runQuotaModel([shared(), other], 3, STEPS);
    });
  });
