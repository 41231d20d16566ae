// What a server holds once the attacks are over: everything that they took must be free again.
import { readdirSync, readFileSync } from "node:fs";
import { globalAgent } from "node:http";
import { until } from "../../harness/waiting.ts";

/** Shares that a request holds only while it runs. */
const MOMENTARY = [
  "polls",
  "receipts",
  "holder_receipts",
  "writes",
  "loop",
  "pipeline",
  "passwords",
  "unsent",
  "bodies",
  "anonymous_bodies",
];

/** Descriptors and connections that a server may open for itself, or for clients that keep them. */
const SLACK = 32;
/** How much more memory the later rounds may leave than the earlier ones. */
const GROWTH = 1.25;

type Levels = { descriptors: number; connections: number };

async function sharesUsed(metricsUrl: string): Promise<Map<string, number>> {
  const text = await (await fetch(metricsUrl)).text();
  const samples = text.matchAll(/^keyrack_share_used\{resource="(\w+)"\} (\S+)$/gm);
  return new Map(Array.from(samples, ([, name = "", value]) => [name, Number(value)]));
}

export async function readLevels(pid: number, metricsUrl: string): Promise<Levels> {
  const descriptors = process.platform === "linux" ? readdirSync(`/proc/${pid}/fd`).length : 0;
  return { descriptors, connections: (await sharesUsed(metricsUrl)).get("connections") ?? 0 };
}

/** Waits until the server holds no more than before; returns what it still holds, or null. */
export async function levelOff(pid: number, metricsUrl: string, before: Levels): Promise<string | null> {
  globalAgent.destroy(); // the attackers' idle connections
  let left = "";
  const isLevel = async (): Promise<boolean> => {
    const used = await sharesUsed(metricsUrl);
    const now = await readLevels(pid, metricsUrl);
    const held = MOMENTARY.filter((name) => used.get(name) !== 0);
    left = JSON.stringify({ ...now, ...Object.fromEntries(held.map((name) => [name, used.get(name) ?? null])) });
    return (
      held.length === 0 &&
      now.descriptors <= before.descriptors + SLACK &&
      now.connections <= before.connections + SLACK
    );
  };
  return until(isLevel).then(
    () => null,
    () => `${left}, before ${JSON.stringify(before)}`,
  );
}

/** The resident size, in MB. */
export function rssMb(pid: number): number {
  if (process.platform !== "linux") return 0;
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;
}

/** Whether memory is still growing: `sizes` are those after each round. Too few rounds say nothing. */
export function keepsGrowing(sizes: readonly number[]): boolean {
  const half = Math.floor(sizes.length / 2);
  return half >= 4 && Math.max(...sizes.slice(half)) > GROWTH * Math.max(...sizes.slice(0, half));
}
