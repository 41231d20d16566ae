// Every request that searches or filters, at a million keys and audit rows on both databases. None of them may hold the
// event loop for 10 ms. It takes long: .ci/nightly runs it. KEYRACK_BENCH_KEYS makes it smaller.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Size } from "./large.ts";
import { timePair, type Pair } from "./large-requests.ts";

const HELD_MAX_MS = 10;
export const KEYS = Number(process.env["KEYRACK_BENCH_KEYS"] ?? 1_000_000);
const FEW = 1_000;
const TENANTS = 1_000;

/** Beside a thousand keys. Measured once for all benchmarks of a run: filling a database takes minutes. */
export async function timeMillion(backend: string): Promise<Pair> {
  const { KEYRACK_BENCH_SHARED: shared } = process.env;
  const file = shared && join(shared, `million-${backend}.json`);
  if (file && existsSync(file)) return JSON.parse(readFileSync(file, "utf8")) as Pair;
  const sizeOf = (keys: number): Size => ({ keys, tenants: TENANTS });
  const times = await timePair(backend, { many: sizeOf(KEYS), few: sizeOf(FEW) });
  if (file) writeFileSync(file, JSON.stringify(times));
  return times;
}

async function tableOf(backend: string): Promise<string[]> {
  const { many: times } = await timeMillion(backend);
  const { name, turnMs } = times.toSorted((a, b) => b.turnMs - a.turnMs)[0]!;
  console.error(`${backend}: ${name} holds the event loop longest, ${turnMs.toFixed(2)} ms`);
  if (turnMs > HELD_MAX_MS) process.exitCode = 1;
  return times.map((row) => {
    const figures = [row.ms, row.turnMs, row.longestMs].map((each) => each.toFixed(2));
    return `| ${[backend, `\`${row.name}\``, ...figures].join(" | ")} |`;
  });
}

export async function million(): Promise<string> {
  const rows = [...(await tableOf("sqlite")), ...(await tableOf("postgres"))];
  const head = `${KEYS.toLocaleString("en")} keys and audit rows, ${TENANTS.toLocaleString("en")} tenants.`;
  const columns = "| Database | Request | Time, ms | Longest turn, ms | Longest of 30 requests, ms |";
  return [head, "", columns, "|---|---|---|---|---|", ...rows].join("\n");
}
