// What each fast path buys: CPU time of the server per request with it and without it.
import { MEASURED, SWITCHES, type Switch } from "./fast-paths/switches.ts";
import { measureVariants, type Variant } from "./variants.ts";

const PRELOAD = new URL("./fast-paths/preload.mjs", import.meta.url).href;
/** Below this share of its row a fast path is not worth its code. */
const WORTH = 0.05;

const without = ({ edits }: Switch): Variant => ({
  env: { NODE_OPTIONS: `--import=${PRELOAD}`, KEYRACK_BENCH_EDITS: JSON.stringify(edits) },
});

export async function fastPaths(): Promise<string> {
  const lines = ["| Fast path | Row | With | Without | Saves | |", "|---|---|---|---|---|---|"];
  for (const row of MEASURED) {
    const switches = SWITCHES.filter(({ rows }) => rows.includes(row));
    const [on = Number.NaN, ...off] = await measureVariants(row, [{}, ...switches.map(without)]);
    for (const [i, { name }] of switches.entries()) {
      const slower = off[i] as number;
      const share = 1 - on / slower;
      const verdict = share >= WORTH ? "" : "under 5 %";
      const figures = `${on.toFixed(1)} µs | ${slower.toFixed(1)} µs | ${(100 * share).toFixed(0)} %`;
      const line = `| ${name} | ${row} | ${figures} | ${verdict} |`;
      console.error(line);
      lines.push(line);
    }
  }
  return lines.join("\n");
}
