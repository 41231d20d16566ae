// Thousands of nodes that wait in long polls of one process: what a waiting poll costs, how soon a revocation is at all
// of them, how soon all of them have acknowledged it, and how long other requests take meanwhile.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startServer } from "../harness/processes/server.ts";
import { load } from "./client.ts";
import { cpuMicros } from "./micros.ts";
import { median } from "./report.ts";
import { addNodes, type FleetServer, type WaitingNode } from "./waiting-node.ts";

const FLEETS = [1_000, 5_000, 10_000] as const;
const ROUNDS = 3;
const BESIDE_MS = 3_000;
const BESIDE_PAUSE_MS = 5;
const BESIDE_LEAD_MS = 500;

type Ready = FleetServer & { tenant_id: string; pid: number };

const memory = (pid: number): number => {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024;
};

async function call<T>({ url, secret_key }: Ready, path: string, body?: object): Promise<T> {
  const headers = { authorization: `Bearer ${secret_key}`, "content-type": "application/json" };
  const sent = body ? { method: "POST", body: JSON.stringify(body) } : {};
  const response = await fetch(url + path, { headers, ...sent });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return (await response.json()) as T;
}

type Receipt = { complete: boolean; total_nodes: number; acked_nodes: number };

/** Waits until every node has acknowledged the version. */
async function complete(ready: Ready, version: number, nodes: readonly WaitingNode[]): Promise<void> {
  const path = `/v1/propagation?project_id=${ready.project_id}&version=${version}&wait_ms=10000`;
  for (;;) {
    const { complete, total_nodes } = await call<Receipt>(ready, path);
    if (complete && total_nodes === nodes.length) return;
    for (const { failure } of nodes) if (failure) throw failure;
  }
}

type Sample = { p99: number; receipt: number; cpu: number; beside: number };

async function revokeOnce(ready: Ready, nodes: readonly WaitingNode[]): Promise<Sample> {
  const { project_id, tenant_id, pid } = ready;
  const began = performance.now();
  const { id } = await call<{ id: string }>(ready, "/v1/keys", { project_id, tenant_id, env: "live" });
  const { policy_version } = await call<{ policy_version: number }>(ready, `/v1/projects/${project_id}`);
  await complete(ready, policy_version, nodes);
  await sleep(performance.now() - began); // the pause after the wake of the mint
  const pace = { connections: 1, warmMs: 0, forMs: BESIDE_MS, pauseMs: BESIDE_PAUSE_MS };
  const beside = load({ url: `${ready.url}/healthz`, ...pace });
  await sleep(BESIDE_LEAD_MS);
  const [cpu, start] = [cpuMicros(pid), performance.now()];
  await call(ready, `/v1/keys/${id}/revoke`, {});
  await complete(ready, policy_version + 1, nodes);
  const receipt = performance.now() - start;
  const used = (cpuMicros(pid) - cpu) / nodes.length;
  const arrived = nodes.map(({ arrivedAt }) => arrivedAt - start).toSorted((a, b) => a - b);
  const { p99Ms } = await beside;
  return { p99: arrived[Math.floor(nodes.length * 0.99)] ?? Number.NaN, receipt, cpu: used, beside: p99Ms };
}

async function fleetOf(size: number): Promise<string> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-waiting-"));
  const file = join(dir, "keyrack.toml"); // an ephemeral server ignores settings of the environment
  writeFileSync(file, "connections_max = 20000\nmax_waiting = 20000\nnodes_max = 20000\n", { mode: 0o600 });
  const server = await startServer(["--ephemeral", "--seed", "--config", file]);
  const ready = server.ready as unknown as Ready;
  const nodes: WaitingNode[] = [];
  try {
    const { policy_version } = await call<{ policy_version: number }>(ready, `/v1/projects/${ready.project_id}`);
    const before = memory(ready.pid);
    await addNodes(nodes, size, ready, policy_version);
    await complete(ready, policy_version, nodes);
    const each = (memory(ready.pid) - before) / size / 1_024;
    const samples: Sample[] = [];
    for (let round = 0; round < ROUNDS; round++) samples.push(await revokeOnce(ready, nodes));
    const of = (name: keyof Sample): number => median(samples.map((sample) => sample[name]));
    const cells = [
      size.toLocaleString("en"),
      `${each.toFixed(0)} KiB`,
      `${of("p99").toFixed(0)} ms`,
      `${of("receipt").toFixed(0)} ms`,
      `${of("cpu").toFixed(0)} µs`,
      `${of("beside").toFixed(0)} ms`,
    ];
    return `| ${cells.join(" | ")} |`;
  } finally {
    for (const node of nodes) node.end();
    await server.end("SIGTERM");
    rmSync(dir, { recursive: true });
  }
}

export async function waiting(): Promise<string> {
  const head =
    "| waiting nodes | memory of each | a revocation is at 99 % of them | the receipt is complete | CPU of the server a node | p99 of /healthz meanwhile |";
  const lines: string[] = [];
  for (const size of FLEETS) lines.push(await fleetOf(size));
  return [head, "|---|---|---|---|---|---|", ...lines].join("\n");
}
