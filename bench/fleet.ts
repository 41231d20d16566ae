// Many nodes and several processes: unchanged polls on PostgreSQL compared with SQLite, commits of several writers, the
// arrival of a revocation at thousands of waiting nodes, and what their wakes leave for other requests.
import { readFileSync } from "node:fs";
import { createDatabase } from "../harness/databases/postgres-databases.ts";
import { POSTGRES, withScratch } from "../harness/databases/scratch.ts";
import { send } from "../harness/processes/send.ts";
import { makeWorld } from "../harness/instances/world.ts";
import { startServer } from "../harness/processes/server.ts";
import { unusedPort } from "../harness/processes/unused-port.ts";
import { writeReports } from "../src/domain/nodes/reports.ts";
import { cellOwner } from "../src/fairness/owners.ts";
import { openStore } from "../src/store/database.ts";
import type { Store } from "../src/store/store.ts";
import { load } from "./client.ts";
import { editedServer, ONE_READ_A_POLL } from "./fast-paths/switches.ts";
import { revocationP99 } from "./feed.ts";
import { bodyOf } from "./ratelimit.ts";
import { interleave, median, type Row } from "./report.ts";
import { idle } from "./snapshots.ts";
import { inTurns, perSecond, type Side } from "./turns.ts";
import type { Variant } from "./variants.ts";
import { addNodes, type FleetServer, type WaitingNode } from "./waiting-node.ts";
import { commitsPerSecond, onCluster } from "./writers.ts";

const CONNECTIONS = 48;
const ROUNDS = 3;
const WRITERS = 8;
const NODES = 1_000;
const WAITING = 2_000;
const MINTS_PER_SECOND = 50;

type Ready = FleetServer & { tenant_id: string };

const bearer = ({ secret_key }: Ready): Record<string, string> => ({ authorization: `Bearer ${secret_key}` });
const pollOf = ({ url, project_id }: Ready): string => `${url}/v1/policy/delta?since=1&project_id=${project_id}`;

/** Each start has a data dir of its own, so it needs a database of its own too. */
async function pollsOn(backend: "sqlite" | "postgres", { env }: Variant = {}): Promise<Side> {
  const database = backend === "postgres" ? await createDatabase(POSTGRES) : null;
  const args = ["--ephemeral", "--seed", ...(database ? ["--database-url", database.url] : [])];
  const server = await startServer(args, env);
  const ready = server.ready as unknown as Ready;
  const options = { url: pollOf(ready), headers: bearer(ready), connections: CONNECTIONS };
  return {
    measure: (times) => perSecond({ ...options, ...times }, "304"),
    end: async () => {
      await server.end("SIGTERM");
      await database?.drop();
    },
  };
}

async function unchangedPolls(): Promise<Row> {
  const sides = { ours: () => pollsOn("postgres"), peer: () => pollsOn("sqlite") };
  return { name: "fleet/unchanged-poll", ...(await inTurns(sides)), target: ">= 0.65", unit: "/s" };
}

async function pollsInRounds(): Promise<Row> {
  const sides = { ours: () => pollsOn("postgres"), peer: () => pollsOn("postgres", editedServer(ONE_READ_A_POLL)) };
  return { name: "fleet/unchanged-poll-rounds", ...(await inTurns(sides)), target: ">= 1.8", unit: "/s" };
}

/** Statements that read heads, per poll. */
async function headReads(): Promise<Row> {
  return withScratch("postgres", async ({ args }) => {
    const metrics = `127.0.0.1:${await unusedPort()}`;
    const server = await startServer(args, { KEYRACK_METRICS: metrics });
    try {
      const { url, bootstrap_token_file } = server.ready;
      const bootstrap = readFileSync(String(bootstrap_token_file), "utf8").trim();
      const { key, project_id } = await makeWorld((...call) => send(url, ...call), bootstrap, "fleet");
      const read = async (): Promise<number> => {
        const text = await (await fetch(`http://${metrics}/metrics`)).text();
        return Number(/^keyrack_policy_head_reads_total (\d+)/m.exec(text)?.[1]);
      };
      const before = await read();
      const { requests } = await load({
        url: `${url}/v1/policy/delta?since=0&project_id=${project_id}`,
        headers: { authorization: `Bearer ${key}` },
        connections: CONNECTIONS,
        warmMs: 0,
        forMs: 5_000,
      });
      const ours = (await read()) - before;
      return { name: "fleet/head-reads", ours, peer: requests, ratio: ours / requests, target: "<= 0.15" };
    } finally {
      await server.end("SIGTERM");
    }
  });
}

/** With a sync of 2 ms, as on a network disk. */
async function writersOnOneCluster(): Promise<Row> {
  return onCluster(WRITERS, { syncMs: 2 }, async (target) => {
    const { many, one } = await interleave(ROUNDS, {
      many: () => commitsPerSecond(target, WRITERS, "outside"),
      one: () => commitsPerSecond(target, 1, "outside"),
    });
    return { name: "fleet/commits", ours: many, peer: one, ratio: many / one, target: ">= 3", unit: "/s" };
  });
}

/**
 * Rate-limit checks per second while `WAITING` polls wait, quiet and while many mints wake them: over several wakes.
 */
async function checksBesideWakes(): Promise<Row> {
  const server = await startServer(["--ephemeral", "--seed"], { KEYRACK_THROTTLE: "off" });
  const ready = server.ready as unknown as Ready;
  const { url, project_id, tenant_id } = ready;
  const headers = { ...bearer(ready), "content-type": "application/json" };
  const check = bodyOf(project_id, tenant_id);
  const checks = (): Promise<number> =>
    perSecond(
      { url: `${url}/v1/ratelimit/check`, method: "POST", headers, body: check, warmMs: 500, forMs: 12_000 },
      "200",
    );
  const minted = JSON.stringify({ project_id, tenant_id, env: "live" });
  const mint = async (): Promise<unknown> =>
    (await fetch(`${url}/v1/keys`, { method: "POST", headers, body: minted })).arrayBuffer(); // or it keeps its connection
  const nodes: WaitingNode[] = [];
  const pairs: { quiet: number; busy: number }[] = [];
  try {
    await addNodes(nodes, WAITING, ready, 1);
    for (let round = 0; round < ROUNDS; round++) {
      await idle(server.ready.pid); // mints and wakes of the last round
      const quiet = await checks();
      const minting = setInterval(() => void mint().catch(() => {}), 1_000 / MINTS_PER_SECOND);
      const busy = await checks().finally(() => clearInterval(minting));
      pairs.push({ quiet, busy });
    }
  } finally {
    for (const node of nodes) node.end();
    await server.end("SIGTERM");
  }
  const [ours, peer] = [median(pairs.map(({ busy }) => busy)), median(pairs.map(({ quiet }) => quiet))];
  return { name: "fleet/checks-beside-wakes", ours, peer, ratio: ours / peer, target: ">= 0.4", unit: "/s" };
}

/** Milliseconds to store what 1,000 nodes report, `size` of them to a statement. */
async function storeReports(store: Store, version: number, size: number): Promise<number> {
  const node = {
    project_id: "p0",
    env_scope: "live" as const,
    version,
    last_seen_at: Date.now(),
    caps: "",
    full_power: 0,
    sdk: "@keyrack/sdk/0.1.0",
    leaving: false,
    owner: cellOwner("w0", "live"),
  };
  const bounds = {
    perProject: 10_000,
    liveMs: 120_000,
    liveSince: async () => 0,
    now: Date.now(),
    hasRoom: () => true,
  };
  const reports = Array.from({ length: NODES }, (_, i) => ({ ...node, node_id: `node-${i}` }));
  const start = performance.now();
  await store.write({
    chains: [],
    work: async (tx) => {
      for (let i = 0; i < NODES; i += size) await writeReports(tx, reports.slice(i, i + size), bounds);
      return { value: undefined, entries: [] };
    },
  });
  return performance.now() - start;
}

async function acknowledgements(): Promise<Row> {
  return onCluster(1, {}, async (target) => {
    const store = await openStore(target, { now: Date.now, fatal: () => {} });
    try {
      let version = 0;
      const { many, one } = await interleave(ROUNDS, {
        many: () => storeReports(store, ++version, 500),
        one: () => storeReports(store, ++version, 1),
      });
      return { name: "fleet/acknowledgements", ours: many, peer: one, ratio: many / one, target: "<= 0.2", unit: "ms" };
    } finally {
      await store.close();
    }
  });
}

async function revocations(): Promise<Row> {
  const [peer, ours] = [await revocationP99(1_000, 5), await revocationP99(5_000, 5)];
  return { name: "fleet/revocation", ours, peer, ratio: ours / peer, target: "<= 6", unit: "ms" };
}

export async function fleet(): Promise<Row[]> {
  return [
    await unchangedPolls(),
    await pollsInRounds(),
    await headReads(),
    await writersOnOneCluster(),
    await acknowledgements(),
    await checksBesideWakes(),
    await revocations(),
  ];
}
