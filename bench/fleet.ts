// Many nodes and several processes: unchanged polls on PostgreSQL compared with SQLite, commits of several writers, the
// arrival of a revocation at thousands of waiting nodes, and what their wakes leave for other requests.
import { withScratch, withScratchDatabase } from "../harness/databases/scratch.ts";
import { startServer } from "../harness/processes/server.ts";
import { unusedPort } from "../harness/processes/unused-port.ts";
import { openStore } from "../src/store/database.ts";
import { withPostgres } from "../src/store/postgres/client.ts";
import type { DatabaseTarget } from "../src/store/target.ts";
import { load } from "./client.ts";
import { revocationP99 } from "./feed.ts";
import { interleave, median, type Row } from "./report.ts";
import { inTurns, perSecond, type Side } from "./turns.ts";

const CONNECTIONS = 48;
const ROUNDS = 3;
const WRITERS = 8;
const COMMITS_MS = 3_000;
const WAITING = 2_000;
const MINTS_PER_SECOND = 50;

type Ready = { url: string; secret_key: string; project_id: string; tenant_id: string };

const bearer = ({ secret_key }: Ready): Record<string, string> => ({ authorization: `Bearer ${secret_key}` });
const pollOf = ({ url, project_id }: Ready): string => `${url}/v1/policy/delta?since=1&project_id=${project_id}`;

async function pollsOn(databaseUrl: string | null): Promise<Side> {
  const server = await startServer(["--ephemeral", "--seed", ...(databaseUrl ? ["--database-url", databaseUrl] : [])]);
  const ready = server.ready as unknown as Ready;
  const options = { url: pollOf(ready), headers: bearer(ready), connections: CONNECTIONS };
  return {
    measure: (times) => perSecond({ ...options, ...times }, "304"),
    end: () => server.end("SIGTERM"),
  };
}

async function unchangedPolls(): Promise<Row> {
  return withScratchDatabase("postgres", async (url) => {
    const { ours, peer, ratio } = await inTurns({ ours: () => pollsOn(url), peer: () => pollsOn(null) });
    return { name: "fleet/unchanged-poll", ours, peer, ratio, target: ">= 0.65", unit: "/s" };
  });
}

/** Statements that read heads, per poll. */
async function headReads(): Promise<Row> {
  return withScratchDatabase("postgres", async (database) => {
    const metrics = `127.0.0.1:${await unusedPort()}`;
    const server = await startServer(["--ephemeral", "--seed", "--database-url", database ?? "", "--metrics", metrics]);
    try {
      const ready = server.ready as unknown as Ready;
      const read = async (): Promise<number> => {
        const text = await (await fetch(`http://${metrics}/metrics`)).text();
        return Number(/^keyrack_policy_head_reads_total (\d+)/m.exec(text)?.[1]);
      };
      const before = await read();
      const { requests } = await load({
        url: pollOf(ready),
        headers: bearer(ready),
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

/** Commits per second of several processes' write connections, each raising the version of its own project. */
async function commits(target: DatabaseTarget, writers: number): Promise<number> {
  const stores = await Promise.all(
    Array.from({ length: writers }, () => openStore(target, { now: Date.now, fatal: () => {} })),
  );
  const end = performance.now() + COMMITS_MS;
  let done = 0;
  const write = async (store: (typeof stores)[number], project: string): Promise<void> => {
    while (performance.now() < end) {
      await store.write({
        chains: [],
        work: async (tx) => {
          await tx.bump(project);
          return { value: undefined, entries: [] };
        },
      });
      done++;
    }
  };
  await Promise.all(stores.map((store, i) => write(store, `p${i}`)));
  await Promise.all(stores.map((store) => store.close()));
  return done / (COMMITS_MS / 1_000);
}

/** With a sync of 2 ms, as on a network disk: PostgreSQL waits that long before each flush. */
async function writersOnOneCluster(): Promise<Row> {
  return withScratch("postgres", async ({ target }) => {
    if (target.kind !== "postgres") throw new Error("this is about PostgreSQL");
    const database = new URL(target.url).pathname.slice(1);
    await (await openStore(target, { now: Date.now, fatal: () => {} })).close();
    await withPostgres(target.url, async (client) => {
      await client.query(`alter database ${database} set commit_delay = 2000`);
      await client.query(`alter database ${database} set commit_siblings = 0`);
      await client.query("insert into workspaces (id, name, slug, created_at) values ('w', 'w', 'w', 1)");
      await client.query(
        `insert into projects (id, workspace_id, name, slug, created_at)
           select 'p' || n, 'w', 'p', 'p' || n, 1 from generate_series(0, ${WRITERS - 1}) n`,
      );
    });
    const { many, one } = await interleave(ROUNDS, {
      many: () => commits(target, WRITERS),
      one: () => commits(target, 1),
    });
    return { name: "fleet/commits", ours: many, peer: one, ratio: many / one, target: ">= 3", unit: "/s" };
  });
}

/** Rate-limit checks per second while `WAITING` polls wait, quiet and while each of many mints wakes them. */
async function checksBesideWakes(): Promise<Row> {
  const server = await startServer(["--ephemeral", "--seed"], { KEYRACK_THROTTLE: "off" });
  const ready = server.ready as unknown as Ready;
  const { url, project_id, tenant_id } = ready;
  const headers = { ...bearer(ready), "content-type": "application/json" };
  const waiting = load({
    url: `${url}/v1/policy/delta?project_id=${project_id}&since=1&wait_ms=25000`,
    headers,
    connections: WAITING,
    warmMs: 0,
    forMs: 30_000,
  }).catch(() => undefined);
  const limits = [{ id: "m", limit: 1e9, window_ms: 60_000, algorithm: "sliding", scope: "key" }];
  const check = JSON.stringify({ project_id, env: "live", key_id: "k", tenant_id, cost: 1, limits });
  const checks = (): Promise<number> =>
    perSecond(
      { url: `${url}/v1/ratelimit/check`, method: "POST", headers, body: check, warmMs: 500, forMs: 2_000 },
      "200",
    );
  const mint = (): Promise<unknown> =>
    fetch(`${url}/v1/keys`, { method: "POST", headers, body: JSON.stringify({ project_id, tenant_id, env: "live" }) });
  const pairs: { quiet: number; busy: number }[] = [];
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const quiet = await checks();
      const minting = setInterval(() => void mint().catch(() => {}), 1_000 / MINTS_PER_SECOND);
      const busy = await checks().finally(() => clearInterval(minting));
      pairs.push({ quiet, busy });
    }
  } finally {
    await server.end("SIGTERM");
    await waiting;
  }
  const [ours, peer] = [median(pairs.map(({ busy }) => busy)), median(pairs.map(({ quiet }) => quiet))];
  return { name: "fleet/checks-beside-wakes", ours, peer, ratio: ours / peer, target: ">= 0.4", unit: "/s" };
}

async function revocations(): Promise<Row> {
  const [peer, ours] = [await revocationP99(1_000, 5), await revocationP99(5_000, 5)];
  return { name: "fleet/revocation", ours, peer, ratio: ours / peer, target: "<= 6", unit: "ms" };
}

export async function fleet(): Promise<Row[]> {
  return [
    await unchangedPolls(),
    await headReads(),
    await writersOnOneCluster(),
    await checksBesideWakes(),
    await revocations(),
  ];
}
