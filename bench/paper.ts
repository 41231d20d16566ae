// What a very large deployment would need, computed from the figures that the other benchmarks have published: nothing
// here is measured at that size.
import { publishedFleet, publishedRow } from "./published.ts";
import type { RowName } from "./rows.ts";

const NODES = 1e6;
const VERIFICATIONS = 1e9;
/** How long the library's polls wait. */
const POLL_S = 25;
/** Units that a node takes with one lease. */
const LEASE = 1_000;
/** The share of requests that is reported. */
const SAMPLED = 1e-3;
const PRICE_PER_CORE = 25;

/** The published figure of Keyrack in one row, in seconds. */
function seconds(row: RowName): number {
  const [, value, unit] = /^([\d.,]+) ?(ns|µs|ms)?$/.exec(publishedRow(row).ours) ?? [];
  if (!value) throw new Error(`the published row ${row} has no time`);
  const scale = { ns: 1e-9, µs: 1e-6, ms: 1e-3 }[unit ?? "µs"] ?? 1;
  return Number(value.replaceAll(",", "")) * scale;
}

/** CPU time of the server for one node that learns of a change and acknowledges it, at the largest fleet measured. */
function secondsPerWake(): number {
  const [micros = ""] =
    publishedFleet("10,000")
      .find((cell) => cell.endsWith(" µs"))
      ?.split(" ") ?? [];
  return Number(micros.replaceAll(",", "")) * 1e-6;
}

const count = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString("en") : value >= 10 ? value.toFixed(0) : value.toFixed(1);

export async function paper(): Promise<string> {
  const rows: [what: string, rate: string, cores: number, where: string][] = [
    ["verifications", "1e9 a second", VERIFICATIONS * seconds("verify/floor-1e5"), "your own processes"],
    ["unchanged polls", `one in ${POLL_S} s a node`, (NODES / POLL_S) * seconds("parts/unchanged-poll"), "Keyrack"],
    ["rate limits", `leases of ${count(LEASE)} units`, (VERIFICATIONS / LEASE) * seconds("parts/check"), "Keyrack"],
    ["telemetry", `${SAMPLED * 1e3} in 1,000 requests`, VERIFICATIONS * SAMPLED * seconds("ingest/batch"), "Keyrack"],
  ];
  const wake = NODES * secondsPerWake();
  const lines = rows.map(
    ([what, rate, cores, where]) =>
      `| ${[what, rate, `${count(cores)} cores`, `$${count(cores * PRICE_PER_CORE)}`, where].join(" | ")} |`,
  );
  return [
    `Computed for ${count(NODES)} nodes and 1e9 verifications a second, at $${PRICE_PER_CORE} a core and month.`,
    "",
    "| work | how much | CPU | a month | where |",
    "|---|---|---|---|---|",
    ...lines,
    "",
    `One change to a project that all ${count(NODES)} nodes hold takes ${count(wake)} core-seconds of Keyrack.`,
  ].join("\n");
}
