// The result of a benchmark: Keyrack and its peer or limit from the same run, their ratio, and the target.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { ROWS, type RowName } from "./rows.ts";

export type Row = {
  name: RowName;
  ours: number;
  peer: number;
  ratio: number;
  /** For example ">= 0.4" or "<= 1.5"; empty for a row without a target. */
  target: string;
  unit?: string;
};

/** A row whose ratio is ours to the peer's. */
export function rowOf(name: RowName, ours: number, peer: number, target: string, unit: string): Row {
  return { name, ours, peer, ratio: ours / peer, target, unit };
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

export function p99(times: readonly number[]): number {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? Number.NaN;
}

function meets({ ratio, target }: Pick<Row, "ratio" | "target">): boolean {
  const [op, bound] = target.split(" ");
  return op === ">=" ? ratio >= Number(bound) : ratio <= Number(bound);
}

const number = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString("en") : value >= 1 ? value.toFixed(2) : value.toPrecision(3);

export function markdown(rows: readonly Row[]): string {
  const lines = rows.map((row) => {
    const unit = row.unit ? ` ${row.unit}` : "";
    const verdict = row.target === "" ? "" : meets(row) ? "met" : "missed";
    const cells = [`\`${row.name}\``, ROWS[row.name], number(row.ours) + unit, number(row.peer) + unit];
    return `| ${[...cells, row.ratio.toFixed(2), row.target, verdict].join(" | ")} |`;
  });
  const head = "| Row | What | Keyrack | Peer or limit | Ratio | Target | |";
  return [head, "|---|---|---|---|---|---|---|", ...lines].join("\n");
}

type Started = { url: string; end(): Promise<void> };

/** Starts a server of bench/servers that prints its URL as its first line. */
export async function startPeer(file: string): Promise<Started> {
  const child = spawn(process.execPath, [file], { stdio: ["ignore", "pipe", "inherit"] });
  const url = await new Promise<string>((resolve) => createInterface({ input: child.stdout }).once("line", resolve));
  const exited = new Promise<void>((resolve) => child.on("exit", () => resolve()));
  return {
    url,
    end: () => {
      child.kill("SIGTERM");
      return exited;
    },
  };
}

/** The median of several runs of each, interleaved so that noise affects all of them. */
export async function interleave<K extends string>(
  rounds: number,
  work: Record<K, () => Promise<number>>,
): Promise<Record<K, number>> {
  const seen = Object.fromEntries(Object.keys(work).map((name) => [name, []])) as unknown as Record<K, number[]>;
  for (let round = 0; round < rounds; round++) {
    for (const name of Object.keys(work) as K[]) seen[name].push(await work[name]());
  }
  return Object.fromEntries((Object.keys(work) as K[]).map((name) => [name, median(seen[name])])) as Record<K, number>;
}
