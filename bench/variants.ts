// CPU time per request of several variants of the server. They run at the same time and are measured in turns, so a
// slow moment of the machine affects all of them.
import { startServer } from "../harness/processes/server.ts";
import { load, type LoadOptions } from "./client.ts";
import { microsIn } from "./micros.ts";
import { CASES } from "./parts.ts";
import { median } from "./report.ts";
import { worldOf } from "./vendor.ts";

/** Fresh processes differ more than turns do. */
const ROUNDS = 6;
const TURNS = 3;
const WARM_MS = 2_500;
const TURN_MS = 600;

/** How a variant is started. */
export type Variant = { env?: Record<string, string>; bin?: string };

type Started = { pid: number; options: LoadOptions; end: () => Promise<unknown> };

async function start(row: keyof typeof CASES, { env, bin }: Variant): Promise<Started> {
  const server = await startServer(["--ephemeral", "--seed"], env, bin);
  const world = worldOf(server);
  return { pid: world.pid, options: await CASES[row].request(world), end: () => server.end("SIGTERM") };
}

/** Microseconds per request, in the order of `variants`. */
export async function measureVariants(row: keyof typeof CASES, variants: readonly Variant[]): Promise<number[]> {
  const times: number[][] = variants.map(() => []);
  for (let round = 0; round < ROUNDS; round++) {
    const started: Started[] = [];
    try {
      for (const variant of variants) started.push(await start(row, variant));
      for (const { options } of started) await load({ ...options, forMs: WARM_MS });
      for (let turn = 0; turn < TURNS; turn++) {
        for (const [i, { pid, options }] of started.entries()) {
          times[i]?.push(await microsIn(pid, { ...options, forMs: TURN_MS }, CASES[row].status));
        }
      }
    } finally {
      await Promise.all(started.map((server) => server.end()));
    }
  }
  return times.map(median);
}
