// Results by concurrent clients, by keys in the database and by waiting nodes. As tables, and with --write as charts in
// docs/images.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { revocationP99 } from "./feed.ts";
import { svgOf, type Chart } from "./plot.ts";
import { agent } from "./snapshots.ts";
import { median } from "./report.ts";
import { mintCosts, SIZES } from "./scale.ts";
import { perSecond } from "./turns.ts";
import { mintLoad, onKeyrack, readLoad, type World } from "./vendor.ts";

const CLIENTS = [1, 5, 10, 25, 50] as const;
const NODES = [1, 10, 50, 100, 200] as const;
const ROUNDS = 2;

/** Responses per second by number of clients, with a new process per sample, interleaved. */
async function ratesBy(work: (world: World, connections: number) => Promise<number>): Promise<number[]> {
  const seen: number[][] = CLIENTS.map(() => []);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, connections] of CLIENTS.entries())
      seen[i]?.push(await onKeyrack([], (world) => work(world, connections)));
  }
  return seen.map(median);
}

async function byClients(): Promise<Chart> {
  const mints = await ratesBy((world, connections) => perSecond({ ...mintLoad(world), connections }, "201"));
  const reads = await ratesBy(async (world, connections) =>
    perSecond({ ...(await readLoad(world)), connections }, "200"),
  );
  const series = [
    { name: "GET /v1/keys/{id}", values: reads },
    { name: "durable POST /v1/keys", values: mints },
  ];
  return {
    title: "Throughput by concurrent clients (SQLite)",
    x: "clients",
    y: "responses per second",
    steps: CLIENTS,
    series,
  };
}

async function byKeys(): Promise<Chart> {
  const series = [{ name: "durable POST /v1/keys", values: await mintCosts(SIZES) }];
  return {
    title: "Cost of a mint by keys in the database (SQLite)",
    x: "keys",
    y: "µs per mint at 50 clients",
    steps: SIZES,
    series,
  };
}

async function byNodes(): Promise<Chart> {
  const values: number[] = [];
  for (const nodes of NODES) values.push(await revocationP99(nodes));
  agent.destroy();
  const series = [{ name: "p99 over all nodes", values }];
  return {
    title: "Delay of a revocation by waiting nodes",
    x: "nodes",
    y: "ms until it arrives",
    steps: NODES,
    series,
  };
}

function tableOf({ x, y, steps, series }: Chart): string {
  const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const number = (value: number): string => value.toLocaleString("en", { maximumSignificantDigits: 3 });
  const lines = series.map(({ name, values }) => row([name, ...values.map(number)]));
  return [row([`${x} → ${y}`, ...steps.map(number)]), row(["---", ...steps.map(() => "---")]), ...lines].join("\n");
}

export async function curves(write: boolean): Promise<string> {
  const charts = { clients: await byClients(), keys: await byKeys(), nodes: await byNodes() };
  const parts = Object.entries(charts).map(([name, chart]) => {
    const file = `images/curve-${name}.svg`;
    if (write) writeFileSync(fileURLToPath(new URL(`../docs/${file}`, import.meta.url)), svgOf(chart));
    return `![${chart.title}](${file})\n\n${tableOf(chart)}`;
  });
  return parts.join("\n\n");
}
