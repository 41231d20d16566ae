// The policy feed: an unchanged poll compared with bare node:http, a snapshot of 1e5 keys with only reading the rows,
// the cost of a second node, a delta by number of keys, and the delay of a revocation at 200 waiting nodes.
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import Database from "better-sqlite3";
import { startServer } from "../harness/processes/server.ts";
import { cpuMicros, microsIn } from "./micros.ts";
import { interleave, median, rowOf, startPeer, type Row } from "./report.ts";
import { agent, call, fill, filledId, idle, KEYS, onSeededServer, takeSnapshot, type Ready } from "./snapshots.ts";
import { inTurns, type Side } from "./turns.ts";

const BARE = new URL("./servers/bare.ts", import.meta.url).pathname;
const SCAN = new URL("./servers/scan.ts", import.meta.url).pathname;
const ROUNDS = 5;
/** A snapshot takes a quarter of a second in a new process: a single one is too noisy. */
const SNAPSHOT_ROUNDS = 9;
const NODES = 200;
const REVOCATION_MS = 60;
/** Nodes after the first, to average their cost: CPU time is counted in hundredths of a second. */
const LATER_NODES = 10;
/** Revocations before the first that counts: connections and compiled code. */
const WARM_ROUNDS = 5;

function pollsOf(pid: number, url: string, bearer: string, end: Side["end"]): Side {
  const headers = { authorization: `Bearer ${bearer}` };
  return { measure: ({ forMs }) => microsIn(pid, { url, headers, forMs }, "304"), end };
}

const DELTA = "/v1/policy/delta?since=1&node=bench&project_id=";

async function delta304(): Promise<Row> {
  const { ours, peer, ratio } = await inTurns({
    ours: async () => {
      const server = await startServer(["--ephemeral", "--seed"]);
      const { url, pid, project_id, secret_key } = server.ready as unknown as Ready;
      return pollsOf(pid, `${url}${DELTA}${project_id}`, secret_key, () => server.end("SIGTERM"));
    },
    peer: async () => {
      const server = await startPeer(BARE);
      const { origin, hash } = new URL(server.url);
      return pollsOf(Number(hash.slice(1)), `${origin}${DELTA}${"x".repeat(36)}`, "x".repeat(50), () => server.end());
    },
  });
  return { name: "feed/unchanged-poll", ours, peer, ratio: 1 / ratio, target: ">= 0.7", unit: "µs" };
}

function megabytes(pid: number, field: "VmHWM" | "VmRSS"): number {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(text)?.[1]) / 1024;
}

type Snapshot = { first: number; firstCpu: number; secondCpu: number; scan: number; grown: number };

async function snapshots(): Promise<Row[]> {
  const seen: Snapshot[] = [];
  for (let round = 0; round < SNAPSHOT_ROUNDS; round++) {
    seen.push(
      await onSeededServer(async (ready) => {
        const file = fill(ready, KEYS);
        const scanned = execFileSync(process.execPath, [SCAN, file, ready.project_id], { encoding: "utf8" });
        await call(ready, `/v1/policy/delta?project_id=${ready.project_id}&since=1`);
        await idle(ready.pid); // the first request checkpoints the inserted rows: not part of the snapshot
        const [before, cpu] = [megabytes(ready.pid, "VmRSS"), cpuMicros(ready.pid)];
        const first = await takeSnapshot(ready, "identity");
        const grown = megabytes(ready.pid, "VmHWM") - before;
        await idle(ready.pid); // pages are still being compressed: part of the first node's cost
        const firstCpu = (cpuMicros(ready.pid) - cpu) / 1000;
        const then = cpuMicros(ready.pid);
        for (let node = 0; node < LATER_NODES; node++) await takeSnapshot(ready, "zstd");
        const secondCpu = (cpuMicros(ready.pid) - then) / 1000 / LATER_NODES;
        return { first, firstCpu, secondCpu, grown, scan: (JSON.parse(scanned) as { ms: number }).ms };
      }),
    );
  }
  const of = (name: keyof Snapshot): number => median(seen.map((each) => each[name]));
  const beside = median(seen.map(({ first, scan }) => first / scan)); // measured a second apart
  return [
    {
      ...rowOf("feed/snapshot", of("first"), of("scan"), "<= 1.1", "ms"),
      ratio: beside,
    },
    rowOf("feed/second-snapshot", of("secondCpu"), of("firstCpu"), "<= 0.1", "ms"),
    rowOf("feed/snapshot-memory", of("grown"), 30, "<= 1.0", "MB"),
  ];
}

const LIMITS = JSON.stringify([{ id: "default", limit: 100, window_ms: 60_000, algorithm: "sliding", scope: "key" }]);

/** Tenants on a plan with limits and a ceiling; returns their ids. */
function addTenantsOnPlan(db: Database.Database, count: number): string[] {
  const scopes = JSON.stringify(["customers:read", "orders:read", "orders:write", "orders:list"]);
  const ids = Array.from({ length: count }, () => randomUUID());
  db.transaction(() => {
    const plan_id = randomUUID();
    db.prepare(`insert into plans (id, workspace_id, name, slug, rate_limits, scopes, created_at, updated_at)
      select ?, workspace_id, 'Pro', 'pro', ?, ?, 0, 0 from projects limit 1`).run(plan_id, LIMITS, scopes);
    const insert = db.prepare(`insert into tenants (id, workspace_id, external_id, created_at, updated_at, plan_id)
      select ?, workspace_id, ?, 0, 0, ? from projects limit 1`);
    for (const id of ids) insert.run(id, id, plan_id);
  })();
  return ids;
}

/** CPU milliseconds of the server. */
async function snapshotCpu(tenantsOnPlan: number): Promise<number> {
  return onSeededServer(async (ready) => {
    const db = new Database(join(ready.data_dir, "keyrack.db"), { timeout: 5_000 });
    // The project has the plan's limits, so that entries are equal with and without it.
    db.prepare("update projects set default_rate_limits = ?").run(LIMITS);
    const tenants = tenantsOnPlan > 0 ? addTenantsOnPlan(db, tenantsOnPlan) : undefined;
    db.close();
    fill(ready, KEYS, tenants);
    await call(ready, `/v1/policy/delta?project_id=${ready.project_id}&since=1`);
    await idle(ready.pid);
    const before = cpuMicros(ready.pid);
    await takeSnapshot(ready, "identity");
    await idle(ready.pid);
    return (cpuMicros(ready.pid) - before) / 1000;
  });
}

export async function planCost(): Promise<Row> {
  const { ours, peer } = await interleave(ROUNDS, { ours: () => snapshotCpu(1_000), peer: () => snapshotCpu(0) });
  return { name: "feed/snapshot-plans", ours, peer, ratio: ours / peer, target: "<= 1.2", unit: "ms" };
}

async function deltaCost(keys: number): Promise<number> {
  return onSeededServer(async (ready) => {
    fill(ready, keys);
    const edited = `/v1/keys/${filledId(1)}`;
    const times: number[] = [];
    for (let i = 1; i <= 100; i++) {
      await call(ready, edited, "PATCH", JSON.stringify({ name: `n${i}` }));
      times.push((await call(ready, `/v1/policy/delta?project_id=${ready.project_id}&since=${i}`)).ms);
    }
    return median(times);
  });
}

/** p99 in milliseconds from sending a revocation to its arrival at each waiting node. */
export async function revocationP99(nodes: number, rounds = 20): Promise<number> {
  const times = await onSeededServer(async (ready) => {
    const seen: number[] = [];
    let start = performance.now();
    for (let round = 0; round < WARM_ROUNDS + rounds; round++) {
      const body = JSON.stringify({ project_id: ready.project_id, tenant_id: ready.tenant_id, env: "live" });
      const key = JSON.parse((await call(ready, "/v1/keys", "POST", body)).body.toString()) as { id: string };
      const since = 2 + round * 2;
      const path = `/v1/policy/delta?project_id=${ready.project_id}&since=${since}&wait_ms=25000`;
      const polls = Array.from({ length: nodes }, async (_none, n) => {
        const { status } = await call(ready, `${path}&node=n${n}`);
        if (status !== 200) throw new Error(`a poll was answered with ${status}`);
        return performance.now();
      });
      await idle(ready.pid); // all of them are waiting by now
      await sleep(performance.now() - start); // the pause after the last wake
      start = performance.now();
      await call(ready, `/v1/keys/${key.id}/revoke`, "POST", "{}");
      const arrived = await Promise.all(polls);
      if (round >= WARM_ROUNDS) for (const at of arrived) seen.push(at - start);
    }
    return seen.toSorted((a, b) => a - b);
  });
  return times[Math.floor(times.length * 0.99)] ?? Number.NaN;
}

async function revocations(): Promise<Row> {
  const ours = await revocationP99(NODES);
  return {
    name: "feed/revocation",
    ours,
    peer: REVOCATION_MS,
    ratio: ours / REVOCATION_MS,
    target: "<= 1.0",
    unit: "ms",
  };
}

export async function feed(): Promise<Row[]> {
  const rows = [await delta304(), ...(await snapshots()), await planCost(), await revocations()];
  const { ours, peer } = await interleave(ROUNDS, { ours: () => deltaCost(KEYS), peer: () => deltaCost(1_000) });
  rows.push({
    name: "feed/delta",
    ours,
    peer,
    ratio: ours / peer,
    target: "<= 1.5",
    unit: "ms",
  });
  agent.destroy();
  return rows;
}
