// Two processes on one PostgreSQL while keys are revoked and something between them fails: the notices of one are lost, the
// listening connection of the other is half-open, or the other is paused. Each process reaches the database through a proxy
// of its own. The promise: a poll that began after a revocation's response brings the revocation, and no receipt is
// complete while a node holds the key.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { tcpProxy, type Proxy } from "../harness/databases/commit-proxy.ts";
import type { Scratch } from "../harness/databases/scratch.ts";
import { send, type Reply } from "../harness/instances/local-instance.ts";
import { must, type World } from "../harness/instances/world.ts";
import { startServer, type Running } from "../harness/processes/server.ts";
import { seeded, type Random } from "../harness/random.ts";
import { until } from "../harness/waiting.ts";
import { rounds, type Campaign, type Tally } from "./campaign.ts";
import { ENV, worldOn } from "./crash.ts";

const NODES_PER_PROCESS = 4;
const KEYS_MAX = 3;
const LONG_POLL_MS = 2_000;
/** Between polls of a node that does not wait. */
const INTERVAL_MS = 10;
const RECEIPT_MS = 800;
const PAUSE_MAX_MS = 1_500;

const FAULTS = ["none", "notices lost", "half-open", "paused"] as const;
type Fault = (typeof FAULTS)[number];

type Process = { server: Running; proxy: Proxy };
type Report = (what: string) => void;

type NodeOptions = { name: string; waitMs: number };
/** When the response to each revocation arrived, by key. */
type Revoked = Map<string, number>;

/** A verifier that polls one process, waiting or at an interval, and holds the keys of its responses. */
class Node {
  readonly keys = new Set<string>();
  #version = 0;
  readonly #poll: (since: number) => Promise<Reply>;
  readonly #revoked: Revoked;
  readonly #report: Report;

  readonly #waitMs: number;

  constructor({ server }: Process, world: World, { name, waitMs }: NodeOptions, revoked: Revoked, report: Report) {
    this.#waitMs = waitMs;
    const feed = `project_id=${world.project_id}&node=${name}`;
    this.#poll = (since) =>
      send(
        server.ready.url,
        world.key,
        since === 0
          ? `GET /v1/policy/snapshot?${feed}`
          : `GET /v1/policy/delta?${feed}&since=${since}&wait_ms=${waitMs}`,
      );
    this.#revoked = revoked;
    this.#report = report;
  }

  async run(stop: AbortSignal): Promise<void> {
    while (!stop.aborted) {
      const sentAt = performance.now();
      const { status, body } = await this.#poll(this.#version);
      if (status === 503) {
        // On a busy machine a process may refuse to answer: the node has learnt nothing, and asks again.
        await sleep(INTERVAL_MS);
        continue;
      }
      if (status === 200) this.#apply(body);
      else if (status !== 304) this.#report(`a poll was answered with ${status}`);
      for (const [id, revokedAt] of this.#revoked)
        if (sentAt > revokedAt && this.keys.has(id))
          this.#report("a node that polled after a revocation holds the key");
      if (this.#waitMs === 0) await sleep(INTERVAL_MS);
    }
  }

  #apply(body: Reply["body"]): void {
    this.#version = body.version;
    for (const { key_id } of body.keys ?? []) this.keys.add(key_id);
    for (const { change, key_id } of body.changes ?? []) {
      if (change === "upsert") this.keys.add(key_id);
      else this.keys.delete(key_id);
    }
  }
}

async function startProcesses({ dir, target }: Scratch): Promise<[Process, Process]> {
  if (target.kind !== "postgres") throw new Error("several processes need PostgreSQL");
  const { hostname, port } = new URL(target.url);
  const masterKey = join(dir, "a", "master.key");
  const start = async (name: string, env: Record<string, string>): Promise<Process> => {
    mkdirSync(join(dir, name), { mode: 0o700 });
    const proxy = await tcpProxy(hostname, Number(port || 5432));
    const args = ["--data-dir", join(dir, name), "--database-url", proxy.url(target.url)];
    const common = { ...ENV, KEYRACK_PUBLIC_URL: "https://keys.example.com", KEYRACK_BACKUP_EVERY: "off" };
    const server = await startServer(args, { ...common, KEYRACK_REVOKE_WAIT_MS: String(RECEIPT_MS), ...env });
    return { server, proxy };
  };
  const a = await start("a", {});
  return [a, await start("b", { KEYRACK_MASTER_KEY_FILE: masterKey })];
}

class Round {
  readonly #a: Process;
  readonly #b: Process;
  readonly #world: World;
  readonly #nodes: readonly Node[];
  readonly #revoked: Revoked;
  readonly #random: Random;
  readonly #tally: Tally;
  readonly #report: Report;

  constructor(
    [a, b]: [Process, Process],
    world: World,
    { nodes, revoked, report }: { nodes: readonly Node[]; revoked: Revoked; report: Report },
    random: Random,
    tally: Tally,
  ) {
    this.#a = a;
    this.#b = b;
    this.#world = world;
    this.#nodes = nodes;
    this.#revoked = revoked;
    this.#random = random;
    this.#tally = tally;
    this.#report = report;
  }

  async run(fault: Fault): Promise<void> {
    const ids = await this.#mint(this.#random.int(1, KEYS_MAX));
    await until(() => this.#nodes.every(({ keys }) => ids.every((id) => keys.has(id))));
    const lift = this.#apply(fault);
    const started = performance.now();
    for (const id of ids) await this.#revoke(id, fault === "paused" ? this.#a : this.#random.pick([this.#a, this.#b]));
    await lift();
    await until(() => this.#nodes.every(({ keys }) => ids.every((id) => !keys.has(id))));
    this.#tally.count(`rounds, ${fault}`);
    this.#tally.most(`every node has it after ms, ${fault}`, performance.now() - started);
    for (const id of ids) this.#revoked.delete(id);
  }

  async #mint(count: number): Promise<string[]> {
    const { project_id, tenant_id, key } = this.#world;
    const body = { project_id, tenant_id, env: "live" };
    const minted = Array.from({ length: count }, () =>
      must(send(this.#a.server.ready.url, key, "POST /v1/keys", body)),
    );
    return (await Promise.all(minted)).map(({ id }) => id as string);
  }

  /** Returns how to lift the fault. A connection that is half-open is noticed and replaced by the process itself. */
  #apply(fault: Fault): () => Promise<void> {
    if (fault === "notices lost") this.#a.proxy.swallowListeners();
    if (fault === "half-open") this.#b.proxy.swallowListeners();
    if (fault !== "paused") return async () => {};
    const { child } = this.#b.server;
    child.kill("SIGSTOP");
    const pause = this.#random.int(0, PAUSE_MAX_MS);
    return async () => {
      await sleep(pause);
      child.kill("SIGCONT");
    };
  }

  async #revoke(id: string, { server }: Process): Promise<void> {
    const waits = this.#random.int(0, 1) === 1;
    const route = `POST /v1/keys/${id}/revoke${waits ? "?wait=true" : ""}`;
    const { propagation } = await must(send(server.ready.url, this.#world.key, route, {}));
    this.#revoked.set(id, performance.now());
    this.#tally.count("revocations");
    if (!propagation) return;
    const holding = this.#nodes.filter(({ keys }) => keys.has(id)).length;
    if (propagation.complete && holding > 0) this.#report(`a receipt is complete while ${holding} nodes hold the key`);
    if (propagation.total_nodes !== this.#nodes.length)
      this.#report(`a receipt knows of ${propagation.total_nodes} nodes, not of ${this.#nodes.length}`);
    this.#tally.count(propagation.complete ? "complete receipts" : "incomplete receipts");
  }
}

export const processesCampaign: Campaign = {
  name: "processes",
  promise: "P6",
  claim:
    "a poll after a revocation brings it, whatever fails between two processes, and no receipt is complete too early",
  rounds: 500,
  round: "revocation of one to three keys under one fault",
  backends: ["postgres"],
  async run({ scratch, ...options }, tally) {
    const processes = await startProcesses(scratch);
    const stop = new AbortController();
    let seed = options.seed;
    const report: Report = (what) => tally.failed(seed, what);
    const revoked: Revoked = new Map();
    let polling: Promise<unknown> = Promise.resolve();
    try {
      const world = await worldOn(processes[0].server, "processes");
      const nodes = processes.flatMap((process, p) =>
        Array.from({ length: NODES_PER_PROCESS }, (_, i) => {
          const node = { name: `n${p}-${i}`, waitMs: i % 2 === 0 ? LONG_POLL_MS : 0 };
          return new Node(process, world, node, revoked, report);
        }),
      );
      polling = Promise.all(nodes.map((node) => node.run(stop.signal)));
      polling.catch((error: unknown) => report(`a node failed: ${String(error)}`));
      for (seed of rounds(options, tally)) {
        const round = new Round(processes, world, { nodes, revoked, report }, seeded(seed), tally);
        await round.run(FAULTS[seed % FAULTS.length] ?? "none");
      }
    } finally {
      stop.abort();
      await polling.catch(() => {});
      for (const { server, proxy } of processes) {
        await server.end("SIGTERM");
        await proxy[Symbol.asyncDispose]();
      }
    }
  },
};
