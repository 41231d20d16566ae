// Keeps quotas from being stored while a process of an earlier release is connected. In a file of its own because the
// gate needs the services, which need the bank of quotas.
import type { Services } from "../core/context.ts";
import { versionGate } from "../core/version-gate.ts";
import type { GivenQuotas } from "./stored.ts";

/** A process of an earlier release would not charge them. */
export async function requireQuotasKnown(services: Services, quotas: GivenQuotas): Promise<void> {
  if (quotas && quotas.length > 0) await versionGate.assertKnownEverywhere(services, "quotas");
}
