// CPU time of a server process, which other processes on the machine hardly affect.
import { readFileSync } from "node:fs";
import { load, type LoadOptions } from "./client.ts";

/** CPU time used by a process so far, in microseconds. */
export function cpuMicros(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

/** CPU time of the server per request. */
export async function microsIn(pid: number, options: LoadOptions, status: string): Promise<number> {
  const before = cpuMicros(pid);
  const { requests, statuses } = await load({ ...options, warmMs: 0 });
  if (Object.keys(statuses).join() !== status) throw new Error(`the statuses were ${JSON.stringify(statuses)}`);
  return (cpuMicros(pid) - before) / requests;
}

/** The same, after a warm-up. */
export async function microsEach(pid: number, options: LoadOptions, status: string): Promise<number> {
  await load({ ...options, forMs: 4_000 });
  return microsIn(pid, { ...options, forMs: 2_000 }, status);
}
