// Two processes on one PostgreSQL while keys are revoked and something between them fails: the notifications of one are
// lost, the listening connection of the other is half-open, the other is paused while it writes, or no row of a node
// can be written while nodes start. Each process reaches the database through a proxy of its own. The promise: a poll
// that began after a revocation's response brings the revocation, and no receipt is complete while a node holds the
// key.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { tcpProxy, type Proxy } from "../harness/databases/commit-proxy.ts";
import type { Scratch } from "../harness/databases/scratch.ts";
import { send } from "../harness/processes/send.ts";
import { must, mustOnceAvailable, type World } from "../harness/instances/world.ts";
import { startServer, type Running } from "../harness/processes/server.ts";
import { seeded, type Random } from "../harness/random.ts";
import { until } from "../harness/waiting.ts";
import type { DatabaseTarget } from "../src/store/target.ts";
import { rounds, type Campaign, type Tally } from "./campaign.ts";
import { ENV, worldOn } from "./crash.ts";
import { PollingNode, type Report, type Revoked } from "./polling-node.ts";
import { startNodesDuringStall } from "./stalled-nodes.ts";

/** Of a project: one that waits, and one that polls at an interval. */
const NODES_PER_PROCESS = 2;
const KEYS_MAX = 3;
/** Polls of a project at the other process right after a revocation's response: 200 at once over all projects. */
const POLLS_AFTER = 50;
const LONG_POLL_MS = 2_000;
const RECEIPT_MS = 800;
const PAUSE_MAX_MS = 1_500;
const PAUSED_WRITES = 8;
const STOP_WITHIN_MS = 10;

const FAULTS = ["none", "notifications lost", "half-open", "paused", "node writes stall"] as const;
type Fault = (typeof FAULTS)[number];

type Process = { server: Running; proxy: Proxy };
type Processes = readonly [Process, Process];

/** A project with the nodes that follow it. */
type Followed = { world: World; nodes: readonly PollingNode[]; revoked: Revoked };

async function startProcesses({ dir, target }: Scratch): Promise<Processes> {
  if (target.kind !== "postgres") throw new Error("several processes need PostgreSQL");
  const masterKey = join(dir, "a", "master.key");
  const start = async (name: string, env: Record<string, string>): Promise<Process> => {
    mkdirSync(join(dir, name), { mode: 0o700 });
    const proxy = await tcpProxy(target.url);
    const args = ["--data-dir", join(dir, name), "--database-url", proxy.url];
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
  readonly #followed: Followed;
  readonly #random: Random;
  readonly #tally: Tally;
  readonly #report: Report;
  readonly #ids: string[] = [];

  constructor([a, b]: Processes, followed: Followed, random: Random, tally: Tally, report: Report) {
    this.#a = a;
    this.#b = b;
    this.#followed = followed;
    this.#random = random;
    this.#tally = tally;
    this.#report = report;
  }

  async mint(): Promise<void> {
    const { project_id, tenant_id, key } = this.#followed.world;
    const body = { project_id, tenant_id, env: "live" };
    const minted = Array.from({ length: this.#random.int(1, KEYS_MAX) }, () =>
      mustOnceAvailable(() => send(this.#a.server.ready.url, key, "POST /v1/keys", body)),
    );
    for (const { id } of await Promise.all(minted)) this.#ids.push(id);
    await until(() => this.#followed.nodes.every(({ keys }) => this.#ids.every((id) => keys.has(id))));
  }

  async revoke(fault: Fault): Promise<void> {
    for (const id of this.#ids) {
      const [by, other] = this.#random.int(0, 1) === 1 && fault !== "paused" ? [this.#b, this.#a] : [this.#a, this.#b];
      const { version } = this.#followed.nodes[0] as PollingNode;
      await this.#revokeAt(by, id);
      if (fault !== "paused") await this.#pollAfter(other, id, version);
    }
  }

  async settle(): Promise<void> {
    const { nodes, revoked } = this.#followed;
    await until(() => nodes.every(({ keys }) => this.#ids.every((id) => !keys.has(id))));
    for (const id of this.#ids) revoked.delete(id);
  }

  async #revokeAt({ server }: Process, id: string): Promise<void> {
    const { world, nodes, revoked } = this.#followed;
    const waits = this.#random.int(0, 1) === 1;
    const route = `POST /v1/keys/${id}/revoke${waits ? "?wait=true" : ""}`;
    // A stalled write delays the others of its process, up to a 503.
    const { propagation } = await mustOnceAvailable(() => send(server.ready.url, world.key, route, {}));
    revoked.set(id, performance.now());
    this.#tally.count("revocations");
    if (!propagation) return;
    const holding = nodes.filter(({ keys }) => keys.has(id)).length;
    if (propagation.complete && holding > 0) this.#report(`a receipt is complete while ${holding} nodes hold the key`);
    if (propagation.total_nodes !== nodes.length)
      this.#report(`a receipt knows of ${propagation.total_nodes} nodes, not of ${nodes.length}`);
    this.#tally.count(propagation.complete ? "complete receipts" : "incomplete receipts");
  }

  /** Polls of the other process that begin right after the response, beside those of the nodes and other projects. */
  async #pollAfter({ server }: Process, id: string, since: number): Promise<void> {
    const { project_id, key } = this.#followed.world;
    const route = `GET /v1/policy/delta?project_id=${project_id}&since=${since}`;
    const polls = Array.from({ length: POLLS_AFTER }, () => send(server.ready.url, key, route));
    for (const { status, body } of await Promise.all(polls)) {
      if (status === 503) continue;
      const change = body.changes?.findLast(({ key_id }: { key_id: string }) => key_id === id);
      if (status !== 200 || change?.change !== "remove")
        this.#report(`a poll right after a revocation was answered with ${status} and without it`);
      this.#tally.count("polls right after a response");
    }
  }
}

/** Changes that the paused process is in the middle of, in another workspace: they must not delay those of its peer. */
function writeAt({ server }: Process, { project_id, tenant_id, key }: World): Promise<unknown> {
  const body = { project_id, tenant_id, env: "live" };
  return Promise.all(Array.from({ length: PAUSED_WRITES }, () => send(server.ready.url, key, "POST /v1/keys", body)));
}

type Faulty = { processes: Processes; target: DatabaseTarget; busy: World; tally: Tally; report: Report };

/** Returns how to lift the fault. A connection that is half-open is noticed and replaced by the process itself. */
function applyFault(fault: Fault, random: Random, { processes, target, busy, tally, report }: Faulty) {
  const [a, b] = processes;
  if (fault === "notifications lost") a.proxy.swallowListeners();
  if (fault === "half-open") b.proxy.swallowListeners();
  if (fault === "node writes stall") {
    const urls = { revoking: a.server.ready.url, polled: b.server.ready.url };
    const starting = startNodesDuringStall(urls, busy, target, random, { tally, report });
    return () => starting;
  }
  if (fault !== "paused") return async () => {};
  const { child } = b.server;
  const writing = writeAt(b, busy);
  const stopping = sleep(random.int(0, STOP_WITHIN_MS)).then(() => child.kill("SIGSTOP"));
  const pause = random.int(0, PAUSE_MAX_MS);
  return async () => {
    await stopping;
    await sleep(pause);
    child.kill("SIGCONT");
    await writing;
  };
}

async function runRound(projects: readonly Followed[], seed: number, faulty: Faulty) {
  const { processes, tally, report } = faulty;
  const fault = FAULTS[seed % FAULTS.length] ?? "none";
  const all = projects.map((one, i) => new Round(processes, one, seeded(seed * projects.length + i), tally, report));
  await Promise.all(all.map((one) => one.mint()));
  const lift = applyFault(fault, seeded(seed), faulty);
  const started = performance.now();
  await Promise.all(all.map((one) => one.revoke(fault)));
  await lift();
  await Promise.all(all.map((one) => one.settle()));
  tally.count(`rounds, ${fault}`);
  tally.most(`every node has it after ms, ${fault}`, performance.now() - started);
}

/** Projects of one workspace, each with nodes at every process. */
async function followProjects(count: number, processes: Processes, report: Report): Promise<Followed[]> {
  const first = await worldOn(processes[0].server, "processes");
  const projects = [first.project_id];
  for (let n = 1; n < count; n++)
    projects.push((await must(first.call(first.key, "POST /v1/projects", { name: "P", slug: `p-${n}` }))).id);
  return projects.map((project_id) => {
    const world = { ...first, project_id };
    const revoked: Revoked = new Map();
    const nodes = processes.flatMap((process, p) =>
      Array.from({ length: NODES_PER_PROCESS }, (_, i) => {
        const node = { name: `n${p}-${i}`, waitMs: i % 2 === 0 ? LONG_POLL_MS : 0 };
        return new PollingNode(process.server.ready.url, world, node, revoked, report);
      }),
    );
    return { world, nodes, revoked };
  });
}

/** Keys are revoked in all projects at once: they share a round's waits for time-outs, the look and the pause. */
export function processesCampaign(projects: number): Campaign {
  return {
    name: "processes",
    promise: "P6",
    claim:
      "a poll after a revocation brings it, whatever fails between two processes, and no receipt is complete too early",
    rounds: 500,
    round: `revocation of one to three keys in each of ${projects} projects under one fault`,
    backends: ["postgres"],
    async run({ scratch, ...options }, tally) {
      const started = await startProcesses(scratch);
      const stop = new AbortController();
      let seed = options.seed;
      const report: Report = (what) => tally.failed(seed, what);
      let polling: Promise<unknown> = Promise.resolve();
      try {
        const followed = await followProjects(projects, started, report);
        const busy = await worldOn(started[0].server, "busy");
        const faulty = { processes: started, target: scratch.target, busy, tally, report };
        polling = Promise.all(followed.flatMap(({ nodes }) => nodes.map((node) => node.run(stop.signal))));
        polling.catch((error: unknown) => report(`a node failed: ${String(error)}`));
        for (seed of rounds(options, tally)) await runRound(followed, seed, faulty);
      } finally {
        stop.abort();
        await polling.catch(() => {});
        for (const { server, proxy } of started) {
          await server.end("SIGTERM");
          await proxy[Symbol.asyncDispose]();
        }
      }
    },
  };
}

export const processes = processesCampaign(4);
