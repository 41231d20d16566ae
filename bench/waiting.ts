// Thousands of nodes that wait in long polls of one process: what a waiting poll costs, how soon a revocation is at all of
// them, how soon all of them have acknowledged it, and how long other requests take meanwhile.
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startServer } from "../harness/processes/server.ts";
import { load } from "./client.ts";
import { cpuMicros } from "./micros.ts";
import { median } from "./report.ts";

const FLEETS = [1_000, 5_000, 10_000] as const;
const ROUNDS = 3;
const CONNECT_AT_A_TIME = 50;
const WAIT_MS = 25_000;
const BESIDE_MS = 3_000;
const BESIDE_PAUSE_MS = 5;
const BESIDE_LEAD_MS = 500;

type Ready = { url: string; secret_key: string; project_id: string; tenant_id: string; pid: number };

/** A node over a bare socket: it costs the machine less than the server that is measured. */
class Node {
  /** When its newest version arrived. */
  arrivedAt = 0;
  /** Why its connection ended. */
  failure: Error | undefined;
  version: number;
  readonly #socket: Socket;
  readonly #request: (since: number, waitMs: number) => string;
  #pending = "";
  #onFirst = (): void => {};

  constructor({ url, secret_key, project_id }: Ready, name: string, version: number) {
    const { hostname, port, host } = new URL(url);
    const head = `HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${secret_key}\r\n\r\n`;
    const path = `/v1/policy/delta?project_id=${project_id}&node=${name}`;
    this.version = version;
    this.#request = (since, waitMs) => `GET ${path}&since=${since}&wait_ms=${waitMs} ${head}`;
    this.#socket = connect(Number(port), hostname);
    this.#socket.setNoDelay(true);
    this.#socket.on("error", (error) => (this.failure = error));
    this.#socket.on("data", (chunk) => this.#read(chunk.toString("latin1")));
  }

  /** Resolves once the server has answered: the kernel accepts connections sooner, and more than it can hand over. */
  async connected(): Promise<void> {
    await once(this.#socket, "connect");
    this.#socket.write(this.#request(this.version, 0));
    await new Promise<void>((resolve) => (this.#onFirst = resolve));
  }

  end(): void {
    this.#socket.destroy();
  }

  #poll(): void {
    this.#socket.write(this.#request(this.version, WAIT_MS));
  }

  #read(text: string): void {
    this.#pending += text;
    const end = this.#pending.indexOf("\r\n\r\n");
    if (end < 0) return;
    const length = Number(/content-length: (\d+)/.exec(this.#pending)?.[1] ?? 0);
    if (this.#pending.length < end + 4 + length) return;
    if (!/^HTTP\/1\.1 (200|304) /.test(this.#pending)) throw new Error(`a poll was answered: ${this.#pending}`);
    this.version = Number(/"version":(\d+)/.exec(this.#pending)?.[1] ?? this.version);
    this.#pending = "";
    this.arrivedAt = performance.now();
    this.#poll(); // acknowledges
    this.#onFirst();
  }
}

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
async function complete(ready: Ready, version: number, nodes: readonly Node[]): Promise<void> {
  const path = `/v1/propagation?project_id=${ready.project_id}&version=${version}&wait_ms=10000`;
  for (;;) {
    const { complete, total_nodes } = await call<Receipt>(ready, path);
    if (complete && total_nodes === nodes.length) return;
    for (const { failure } of nodes) if (failure) throw failure;
  }
}

type Sample = { p99: number; receipt: number; cpu: number; beside: number };

async function revokeOnce(ready: Ready, nodes: readonly Node[]): Promise<Sample> {
  const { project_id, tenant_id, pid } = ready;
  const { id } = await call<{ id: string }>(ready, "/v1/keys", { project_id, tenant_id, env: "live" });
  const { policy_version } = await call<{ policy_version: number }>(ready, `/v1/projects/${project_id}`);
  await complete(ready, policy_version, nodes);
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
  const nodes: Node[] = [];
  try {
    const { policy_version } = await call<{ policy_version: number }>(ready, `/v1/projects/${ready.project_id}`);
    const before = memory(ready.pid);
    while (nodes.length < size) {
      const some = Array.from({ length: CONNECT_AT_A_TIME }, (_, i) => {
        return new Node(ready, `n${nodes.length + i}`, policy_version);
      });
      nodes.push(...some);
      await Promise.all(some.map((node) => node.connected()));
    }
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
