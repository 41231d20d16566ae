// KEYRACK_BENCH_BASE=DIR npm run bench -- compare: this checkout beside another one (with its packages installed), for
// example of the commit before a change. CPU time of the server per request; a ratio below 1 means that this one is
// slower.
import { join } from "node:path";
import { CASES } from "./parts.ts";
import type { Row } from "./report.ts";
import type { RowName } from "./rows.ts";
import { measureVariants } from "./variants.ts";

export async function compare(): Promise<Row[]> {
  const base = process.env.KEYRACK_BENCH_BASE;
  if (!base) throw new Error("Set KEYRACK_BENCH_BASE to the checkout to compare with.");
  const rows: Row[] = [];
  for (const name of Object.keys(CASES) as (keyof typeof CASES & RowName)[]) {
    const [ours = Number.NaN, peer = Number.NaN] = await measureVariants(name, [
      {},
      { bin: join(base, "bin/keyrack") },
    ]);
    rows.push({ name, ours, peer, ratio: peer / ours, target: ">= 0.95", unit: "µs" });
  }
  return rows;
}
