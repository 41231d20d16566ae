// What each fast path buys, and what isolation costs: CPU time of the server per request with it and without it.
import { MEASURED, serverWithout, SWITCHES } from "./fast-paths/switches.ts";
import { measureVariants } from "./variants.ts";

/** Below this share of its row a fast path is not worth its code. */
const WORTH = 0.05;

export async function fastPaths(): Promise<string> {
  const lines = ["| Fast path | Row | With | Without | Saves | |", "|---|---|---|---|---|---|"];
  for (const row of MEASURED) {
    const switches = SWITCHES.filter(({ rows }) => rows.includes(row));
    const [on = Number.NaN, ...off] = await measureVariants(row, [{}, ...switches.map(serverWithout)]);
    for (const [i, { name, isRequired }] of switches.entries()) {
      const slower = off[i] as number;
      const share = 1 - on / slower;
      const verdict = isRequired ? "required" : share >= WORTH ? "" : "under 5 %";
      const figures = `${on.toFixed(1)} µs | ${slower.toFixed(1)} µs | ${(100 * share).toFixed(0)} %`;
      const line = `| ${name} | ${row} | ${figures} | ${verdict} |`;
      console.error(line);
      lines.push(line);
    }
  }
  return lines.join("\n");
}
