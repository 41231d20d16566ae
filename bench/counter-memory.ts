// Resident memory of the rate-limit counters in process, by what is counted: `node --expose-gc
// bench/counter-memory.ts`. A place must cost at most 165 bytes, whatever ids, rules and algorithms callers make up.
import { randomUUID } from "node:crypto";
import { Ledger } from "../src/fairness/ledger.ts";
import type { RateLimit } from "../src/kernel/ratelimit/rule.ts";
import { memoryCounter } from "../harness/ratelimit/memory-counter.ts";

const PLACES = 1_000_000;
const TARGET = 165;

const kinds: Record<string, (i: number) => RateLimit> = {
  sliding: () => ruleOf("minute", "sliding"),
  fixed: () => ruleOf("minute", "fixed"),
  "a rule each": (i) => ruleOf(`${"r".repeat(50)}${i}`, "fixed"),
};

function ruleOf(id: string, algorithm: RateLimit["algorithm"]): RateLimit {
  return { id, limit: 5, window_ms: 60_000, algorithm, scope: "key" };
}

function resident(): number {
  (globalThis as { gc?: () => void }).gc?.();
  return process.memoryUsage().rss;
}

const kind = process.argv[2];
if (kind === undefined) {
  const { execFileSync } = await import("node:child_process");
  for (const each of Object.keys(kinds)) {
    process.stdout.write(
      execFileSync(process.execPath, ["--expose-gc", import.meta.filename, each], { encoding: "utf8" }),
    );
  }
} else measure(kind);

function measure(kind: string): void {
  fill(kind, PLACES / 10); // compiles the code and grows the heap
  const before = resident();
  const { places, counter } = fill(kind, PLACES);
  const each = (resident() - before) / places.used;
  const { counters } = counter.metrics();
  console.log(
    `${kind}: ${counters} counters, ${places.used} places, ${each.toFixed(1)} bytes each (at most ${TARGET})`,
  );
}

function fill(kind: string, bound: number) {
  const places = new Ledger({ bound, share: Number.POSITIVE_INFINITY });
  const counter = memoryCounter(() => Date.now(), { places, bounds: { counters: PLACES } });
  const workspace_id = randomUUID();
  for (let i = 0; counter.metrics().overflowed_total === 0; i++) {
    const limits = [(kinds[kind] as (i: number) => RateLimit)(i)];
    const project_id = kind === "a rule each" ? randomUUID() : workspace_id;
    counter.check({ workspace_id, project_id, env: "live", key_id: randomUUID(), tenant_id: null, cost: 1, limits });
  }
  return { places, counter };
}
