// npm run bench -- scale-out [--write]: the throughput of each way to run Keyrack on this machine. Everything (servers,
// PostgreSQL, Redis and the clients) shares one machine, so two processes win only if cores are idle; with --write
// the table goes into docs/scale.md.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { withScratchDatabase } from "../harness/databases/scratch.ts";
import { startServer, type Running } from "../harness/processes/server.ts";
import { load, type LoadOptions } from "./client.ts";
import { median } from "./report.ts";

const REDIS = process.env.KEYRACK_TEST_REDIS_URL ?? "redis://127.0.0.1:6379/9";
const ROUNDS = 3;
const CONNECTIONS = 48;
const TIMES = { warmMs: 800, forMs: 1_500 };

type Way = { name: string; processes: number; postgres: boolean; redis: boolean };

const WAYS: readonly Way[] = [
  { name: "1 process, SQLite, counters in process", processes: 1, postgres: false, redis: false },
  { name: "1 process, PostgreSQL, counters in process", processes: 1, postgres: true, redis: false },
  { name: "1 process, PostgreSQL, Redis", processes: 1, postgres: true, redis: true },
  { name: "2 processes, PostgreSQL, Redis", processes: 2, postgres: true, redis: true },
];

type Ask = Omit<LoadOptions, "url"> & { path: string; status: string };
type World = { urls: string[]; asks: Record<Column, Ask> };
const COLUMNS = ["rate-limit checks", "unchanged polls", "reads of a key", "durable mints"] as const;
type Column = (typeof COLUMNS)[number];

async function asksOf(first: Running): Promise<World["asks"]> {
  const { url, secret_key, project_id, tenant_id } = first.ready as Record<string, string>;
  const headers = { authorization: `Bearer ${secret_key}`, "content-type": "application/json" };
  const want = JSON.stringify({ project_id, tenant_id, env: "live", name: "bench" });
  const minted = await fetch(`${url}/v1/keys`, { method: "POST", headers, body: want });
  const { id } = (await minted.json()) as { id: string };
  const snapshot = await fetch(`${url}/v1/policy/snapshot?project_id=${project_id}`, { headers });
  const { version } = (await snapshot.json()) as { version: number };
  const limits = [{ id: "m", limit: 1e9, window_ms: 60_000, algorithm: "sliding", scope: "key" }];
  const check = JSON.stringify({ project_id, env: "live", key_id: id, tenant_id, cost: 1, limits });
  return {
    "rate-limit checks": { path: "/v1/ratelimit/check", method: "POST", headers, body: check, status: "200" },
    "unchanged polls": { path: `/v1/policy/delta?project_id=${project_id}&since=${version}`, headers, status: "304" },
    "reads of a key": { path: `/v1/keys/${id}`, headers, status: "200" },
    "durable mints": { path: "/v1/keys", method: "POST", headers, body: want, status: "201" },
  };
}

/** Requests per second over all processes. */
async function measure({ urls, asks }: World, column: Column): Promise<number> {
  const { path, status, ...ask } = asks[column];
  const connections = CONNECTIONS / urls.length;
  const results = await Promise.all(urls.map((url) => load({ ...ask, url: url + path, connections, ...TIMES })));
  for (const { statuses } of results)
    if (Object.keys(statuses).join() !== status)
      throw new Error(`${column}: the statuses were ${JSON.stringify(statuses)}`);
  return results.reduce((sum, { perSecond }) => sum + perSecond, 0);
}

async function withWay<T>(way: Way, work: (world: World) => Promise<T>): Promise<T> {
  return withScratchDatabase(way.postgres ? "postgres" : "sqlite", async (database) => {
    const shared = [...(database ? ["--database-url", database] : []), ...(way.redis ? ["--redis-url", REDIS] : [])];
    const running: Running[] = [];
    const dirs: string[] = [];
    try {
      const first = await startServer(["--ephemeral", "--seed", ...shared]);
      running.push(first);
      const env = { KEYRACK_MASTER_KEY_FILE: join(first.ready.data_dir, "master.key"), KEYRACK_THROTTLE: "off" };
      while (running.length < way.processes) {
        const dir = mkdtempSync(join(tmpdir(), "keyrack-bench-"));
        dirs.push(dir);
        running.push(await startServer(["--data-dir", dir, ...shared], env));
      }
      return await work({ urls: running.map(({ ready }) => ready.url), asks: await asksOf(first) });
    } finally {
      await Promise.all(running.map((server) => server.end("SIGTERM")));
      for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
    }
  });
}

/** Mints come last: they raise the policy version that the polls use. */
async function sample(way: Way): Promise<number[]> {
  return withWay(way, async (world) => {
    const rates: number[] = [];
    for (const column of COLUMNS) rates.push(await measure(world, column));
    return rates;
  });
}

export async function scaleOut(): Promise<string> {
  const seen = WAYS.map((): number[][] => []);
  for (let round = 0; round < ROUNDS; round++) for (const [i, way] of WAYS.entries()) seen[i]?.push(await sample(way));
  const lines = WAYS.map(({ name }, i) => {
    const cells = COLUMNS.map((_, c) => Math.round(median((seen[i] ?? []).map((rates) => rates[c] ?? 0))));
    return `| ${[name, ...cells.map((cell) => cell.toLocaleString("en"))].join(" | ")} |`;
  });
  const head = [`| requests a second | ${COLUMNS.join(" | ")} |`, `|---|${"---|".repeat(COLUMNS.length)}`];
  return [...head, ...lines].join("\n");
}
