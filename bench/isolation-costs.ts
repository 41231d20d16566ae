// What isolation costs when there is no other load: CPU time of the server per request with it and without it.
import { COSTS, editedServer } from "./fast-paths/switches.ts";
import type { Row } from "./report.ts";
import { measureVariants } from "./variants.ts";

export async function isolationCosts(): Promise<Row[]> {
  const rows: Row[] = [];
  for (const { name, row, edits, target } of COSTS) {
    const [ours = Number.NaN, peer = Number.NaN] = await measureVariants(row, [{}, editedServer(edits)]);
    rows.push({ name, ours, peer, ratio: peer / ours, target, unit: "µs" });
  }
  return rows;
}
