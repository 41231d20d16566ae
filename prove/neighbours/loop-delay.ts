// How often the server's event loop was late by more than 50 ms, by its own metrics.
import type { Running } from "../../harness/processes/server.ts";

/** For the server's environment. */
export const METRICS_ENV = { KEYRACK_METRICS: "127.0.0.1:0" };

const DELAY = "keyrack_event_loop_delay_seconds";

/** Reads where a server with METRICS_ENV serves its metrics. Call it soon: later lines take the place of the first. */
export function metricsUrlOf(server: Running): string {
  const url = /"event":"metrics","url":"([^"]+)"/.exec(server.stderr())?.[1];
  if (!url) throw new Error(`the server has not logged the address of its metrics: ${server.stderr()}`);
  return url;
}

export async function countDelays(metricsUrl: string): Promise<number> {
  const text = await (await fetch(metricsUrl)).text();
  const sample = (name: string): number => {
    const line = text.split("\n").find((each) => each.startsWith(`${name} `));
    if (!line) throw new Error(`no metric ${name}`);
    return Number(line.slice(name.length));
  };
  return sample(`${DELAY}_count`) - sample(`${DELAY}_bucket{le="0.05"}`);
}
