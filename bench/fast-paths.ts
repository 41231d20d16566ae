// What each fast path buys: CPU time of the server per request with it and without it. All variants of a row run at the same
// time and are measured in turns, so a slow moment of the machine falls on all of them.
import { startServer } from "../harness/processes/server.ts";
import { load, type LoadOptions } from "./client.ts";
import { MEASURED, SWITCHES, type Measured, type Switch } from "./fast-paths/switches.ts";
import { microsIn } from "./micros.ts";
import { CASES } from "./parts.ts";
import { median } from "./report.ts";
import { worldOf } from "./vendor.ts";

const PRELOAD = new URL("./fast-paths/preload.mjs", import.meta.url).href;
const ROUNDS = 3;
const TURNS = 6;
const WARM_MS = 3_000;
const TURN_MS = 800;
/** Below this share of its row a fast path is not worth its code. */
const WORTH = 0.05;

type Variant = { pid: number; options: LoadOptions; end(): Promise<unknown> };

async function startVariant(row: Measured, change?: Switch): Promise<Variant> {
  const env = change && { NODE_OPTIONS: `--import=${PRELOAD}`, KEYRACK_BENCH_EDITS: JSON.stringify(change.edits) };
  const server = await startServer(["--ephemeral", "--seed"], env);
  const world = worldOf(server);
  return { pid: world.pid, options: await CASES[row].request(world), end: () => server.end("SIGTERM") };
}

/** Microseconds per request, in the order of `changes`, the unchanged server first. */
async function measure(row: Measured, changes: readonly Switch[]): Promise<number[]> {
  const times: number[][] = [undefined, ...changes].map(() => []);
  for (let round = 0; round < ROUNDS; round++) {
    const variants: Variant[] = [];
    try {
      for (const change of [undefined, ...changes]) variants.push(await startVariant(row, change));
      for (const { options } of variants) await load({ ...options, forMs: WARM_MS });
      for (let turn = 0; turn < TURNS; turn++) {
        for (const [i, { pid, options }] of variants.entries()) {
          times[i]?.push(await microsIn(pid, { ...options, forMs: TURN_MS }, CASES[row].status));
        }
      }
    } finally {
      await Promise.all(variants.map(({ end }) => end()));
    }
  }
  return times.map(median);
}

export async function fastPaths(): Promise<string> {
  const lines = ["| Fast path | Row | With | Without | Saves | |", "|---|---|---|---|---|---|"];
  for (const row of MEASURED) {
    const changes = SWITCHES.filter(({ rows }) => rows.includes(row));
    const [on = Number.NaN, ...off] = await measure(row, changes);
    for (const [i, { name }] of changes.entries()) {
      const without = off[i] as number;
      const share = 1 - on / without;
      const verdict = share >= WORTH ? "" : "under 5 %";
      const line = `| ${name} | ${row} | ${on.toFixed(1)} µs | ${without.toFixed(1)} µs | ${(100 * share).toFixed(0)} % | ${verdict} |`;
      console.error(line);
      lines.push(line);
    }
  }
  return lines.join("\n");
}
