// Several processes that write to one PostgreSQL: commits by number of writers, with the notification of a change
// inside its transaction and after it, and the model that fits them; and durable mints by number of server processes.
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { withScratch, withScratchDatabase } from "../harness/databases/scratch.ts";
import { makeWorld, type World } from "../harness/instances/world.ts";
import { send } from "../harness/processes/send.ts";
import { startServer, type Running } from "../harness/processes/server.ts";
import { openStore } from "../src/store/database.ts";
import { withPostgres } from "../src/store/postgres/client.ts";
import type { DatabaseTarget } from "../src/store/target.ts";
import { load } from "./client.ts";
import { editedServer, NOTICE_INSIDE } from "./fast-paths/switches.ts";
import { median } from "./report.ts";
import { fitUsl, type Point } from "./usl.ts";

const WRITERS = [1, 2, 4, 8] as const;
const PROCESSES = [1, 2, 4] as const;
const WORKSPACES = 16;
const ROUNDS = 3;
const COMMITS_MS = 2_000;
const NOTIFY = "select pg_notify('keyrack-bench', $1)";

type Postgres = Extract<DatabaseTarget, { kind: "postgres" }>;
/** Where the notification of a change is sent: when the change is on disk, and inside its transaction too or not. */
export type Notice = "inside" | "outside";

/** Later sessions of this database wait that long before each flush. */
async function slowSync(url: string, syncMs: number): Promise<void> {
  if (syncMs === 0) return;
  const database = new URL(url).pathname.slice(1);
  await withPostgres(url, async (client) => {
    await client.query(`alter database ${database} set commit_delay = ${syncMs * 1_000}`);
    await client.query(`alter database ${database} set commit_siblings = 0`);
  });
}

/** A database with projects p0, p1 …; `syncMs` is added to each flush, as PostgreSQL waits that long before it. */
export async function onCluster<T>(
  projects: number,
  { syncMs = 0 }: { syncMs?: number },
  work: (target: Postgres) => Promise<T>,
): Promise<T> {
  return withScratch("postgres", async ({ target }) => {
    if (target.kind !== "postgres") throw new Error("this is about PostgreSQL");
    await (await openStore(target, { now: Date.now, fatal: () => {} })).close();
    await slowSync(target.url, syncMs);
    await withPostgres(target.url, async (client) => {
      await client.query(
        "insert into workspaces (id, name, slug, created_at, updated_at) values ('w', 'w', 'w', 1, 1)",
      );
      await client.query(
        `insert into projects (id, workspace_id, name, slug, created_at, updated_at)
           select 'p' || n, 'w', 'p', 'p' || n, 1, 1 from generate_series(0, ${projects - 1}) n`,
      );
    });
    return work(target);
  });
}

/** Commits per second of several processes' write connections, each raising the version of its own project. */
export async function commitsPerSecond(target: Postgres, writers: number, notice: Notice): Promise<number> {
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
          if (notice === "inside") await tx.run({ sql: NOTIFY, values: [project] });
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

const rate = (value: number): string => Math.round(value).toLocaleString("en");

type Case = { notice: Notice; syncMs: number };

function nameOf({ notice, syncMs }: Case): string {
  const where = notice === "inside" ? "inside the transaction too" : "after the commit";
  return `NOTIFY ${where}, ${syncMs > 0 ? `sync of ${syncMs} ms` : "sync of this disk"}`;
}

async function commits({ notice, syncMs }: Case): Promise<string> {
  const max = WRITERS.at(-1) ?? 1;
  const points = await onCluster(max, { syncMs }, async (target) => {
    const seen: Point[] = [];
    for (const n of WRITERS) {
      const samples: number[] = [];
      for (let round = 0; round < ROUNDS; round++) samples.push(await commitsPerSecond(target, n, notice));
      seen.push({ n, rate: median(samples) });
    }
    return seen;
  });
  const { sigma, kappa, best } = fitUsl(points);
  const cells = [
    nameOf({ notice, syncMs }),
    ...points.map((point) => rate(point.rate)),
    sigma.toFixed(2),
    kappa.toFixed(3),
    best,
  ];
  return `| ${cells.join(" | ")} |`;
}

/** Runs server processes that share one database. */
async function withProcesses<T>(
  count: number,
  { notice, syncMs }: Case,
  work: (servers: Running[]) => Promise<T>,
): Promise<T> {
  const variant = notice === "inside" ? editedServer(NOTICE_INSIDE).env : {};
  return withScratchDatabase("postgres", async (url) => {
    await slowSync(url ?? "", syncMs);
    const dirs = Array.from({ length: count }, () => mkdtempSync(join(tmpdir(), "keyrack-bench-")));
    const servers: Running[] = [];
    try {
      for (const dir of dirs) {
        const env = {
          ...variant,
          KEYRACK_THROTTLE: "off",
          KEYRACK_BACKUP_EVERY: "off",
          KEYRACK_PUBLIC_URL: "https://k.example.com",
        };
        const key = { KEYRACK_MASTER_KEY_FILE: join(dirs[0] ?? "", "master.key") };
        const args = ["--data-dir", dir, "--database-url", url ?? ""];
        servers.push(await startServer(args, servers.length > 0 ? { ...env, ...key } : env));
      }
      return await work(servers);
    } finally {
      await Promise.all(servers.map((server) => server.end("SIGTERM")));
      for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
    }
  });
}

/** Durable mints per second of several processes, over workspaces that each process shares with no other. */
async function mintsPerSecond(processes: number, which: Case): Promise<number> {
  return withProcesses(processes, which, async (servers) => {
    const [first] = servers as [Running];
    const bootstrap = readFileSync(String(first.ready.bootstrap_token_file), "utf8").trim();
    const worlds: World[] = [];
    for (let i = 0; i < WORKSPACES; i++)
      worlds.push(
        await makeWorld(
          (bearer, route, body) => send(first.ready.url, bearer, route, body),
          bootstrap,
          `w${randomBytes(4).toString("hex")}`,
        ),
      );
    const results = await Promise.all(
      worlds.map(({ key, project_id, tenant_id }, i) =>
        load({
          url: `${servers[i % processes]?.ready.url}/v1/keys`,
          method: "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          body: JSON.stringify({ project_id, tenant_id, env: "live" }),
          connections: 2,
          warmMs: 2_000,
          forMs: 3_000,
        }),
      ),
    );
    return results.reduce((sum, { perSecond }) => sum + perSecond, 0);
  });
}

async function mints(which: Case): Promise<string> {
  const rates: string[] = [];
  for (const processes of PROCESSES) rates.push(rate(await mintsPerSecond(processes, which)));
  return `| ${[nameOf(which), ...rates].join(" | ")} |`;
}

const CASES = [0, 2].flatMap((syncMs) => (["inside", "outside"] as const).map((notice): Case => ({ notice, syncMs })));

async function linesOf(measure: (which: Case) => Promise<string>): Promise<string[]> {
  const lines: string[] = [];
  for (const which of CASES) lines.push(await measure(which));
  return lines;
}

export async function writers(): Promise<string> {
  return [
    `| commits a second | ${WRITERS.map((n) => `${n} ${n === 1 ? "writer" : "writers"}`).join(" | ")} | σ | κ | best at |`,
    "|---|---|---|---|---|---|---|---|",
    ...(await linesOf(commits)),
    "",
    `| durable mints a second, ${WORKSPACES} workspaces | ${PROCESSES.map((n) => `${n} ${n === 1 ? "process" : "processes"}`).join(" | ")} |`,
    "|---|---|---|---|",
    ...(await linesOf(mints)),
  ].join("\n");
}
