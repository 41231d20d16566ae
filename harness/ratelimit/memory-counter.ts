// A counter in memory; its bounds are those of the default settings, unless a test names others.
import { tmpdir } from "node:os";
import { loadSettings } from "../../src/config/load.ts";
import { Shares } from "../../src/fairness/shares.ts";
import { MemoryCounter, type MemoryOptions } from "../../src/ratelimit/memory/counter.ts";

type Options = Partial<Pick<MemoryOptions, "places" | "leases">> & { bounds?: Partial<MemoryOptions["bounds"]> };

const { settings } = loadSettings({ env: {}, flags: {}, cwd: tmpdir() });

export function memoryCounter(now: () => number, { bounds, ...ledgers }: Options = {}): MemoryCounter {
  const shares = new Shares(settings);
  const [places, leases] = [shares.of("counters"), shares.of("leases")];
  const counters = settings.ratelimit_counters_per_workspace;
  return new MemoryCounter({ now, places, leases, ...ledgers, bounds: { counters, ...bounds } });
}
