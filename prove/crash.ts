// kill -9 under load: no acknowledged key may be lost, no key may stand without its audit row, the chain must verify.
import { readFileSync } from "node:fs";
import { createClient, type Client } from "../src/client.ts";
import { seeded, type Random } from "./random.ts";
import { startServer, type Running } from "./server.ts";

export type CrashOptions = {
  rounds: number;
  seed: number;
  clients?: number;
  args: string[];
  say?: (line: string) => void;
};
export type CrashReport = {
  campaign: "crash";
  seed: number;
  rounds: number;
  acknowledged: number;
  present: number;
  lost: string[];
  problems: string[];
  readyMsMax: number;
};

type World = { secretKey: string; project_id: string; tenant_id: string; setupRows: number };

export async function crash({ rounds, seed, clients = 16, args, say = () => {} }: CrashOptions): Promise<CrashReport> {
  const random = seeded(seed);
  const acknowledged = new Set<string>();
  const report: CrashReport = {
    campaign: "crash",
    seed,
    rounds,
    acknowledged: 0,
    present: 0,
    lost: [],
    problems: [],
    readyMsMax: 0,
  };
  let server = await startServer(args);
  const world = await setUp(server);
  for (let round = 1; round <= rounds; round++) {
    await loadUntilKilled(server, world, random, clients, acknowledged);
    server = await startServer(args);
    report.readyMsMax = Math.max(report.readyMsMax, Math.round(server.readyMs));
    const present = await audit(server, world, acknowledged, report);
    say(`round ${round}: ${acknowledged.size} acknowledged, ${present} present, ${report.lost.length} lost`);
    if (report.lost.length > 0 || report.problems.length > 0) break;
  }
  await server.end("SIGTERM");
  report.acknowledged = acknowledged.size;
  return report;
}

async function setUp({ ready }: Running): Promise<World> {
  const bearer = readFileSync(String(ready.bootstrap_token_file), "utf8").trim();
  const boot = createClient({ url: ready.url, bearer });
  const { secret_key } = await boot.call("POST /v1/workspaces", { body: { name: "Crash", slug: "crash" } });
  const client = createClient({ url: ready.url, bearer: secret_key.key });
  const project = await client.call("POST /v1/projects", { body: { name: "P", slug: "ppp" } });
  const tenant = await client.call("POST /v1/tenants", { body: { external_id: "t" } });
  const chain = await client.call("GET /v1/audit_logs/chain", {});
  return { secretKey: secret_key.key, project_id: project.id, tenant_id: tenant.id, setupRows: chain.head_seq };
}

/** Clients mint as fast as they can; the process dies at a random moment in the middle. */
async function loadUntilKilled(
  server: Running,
  world: World,
  random: Random,
  clients: number,
  acknowledged: Set<string>,
): Promise<void> {
  const client = createClient({ url: server.ready.url, bearer: world.secretKey });
  const { project_id, tenant_id } = world;
  const state = { dead: false };
  const mint = async (): Promise<void> => {
    while (!state.dead) {
      const key = await client
        .call("POST /v1/keys", { body: { project_id, tenant_id, env: "live" } })
        .catch(() => null);
      if (!key) return;
      acknowledged.add(key.id);
    }
  };
  const minting = Array.from({ length: clients }, mint);
  await new Promise((resolve) => setTimeout(resolve, random.int(20, 600)));
  state.dead = (await server.end("SIGKILL")) !== 0;
  await Promise.all(minting);
}

async function audit(server: Running, world: World, acknowledged: Set<string>, report: CrashReport): Promise<number> {
  const client = createClient({ url: server.ready.url, bearer: world.secretKey });
  const present = await allKeys(client);
  report.present = present.size;
  report.lost = [...acknowledged].filter((id) => !present.has(id));
  const chain = await client.call("GET /v1/audit_logs/chain", {});
  if (!chain.verified) report.problems.push(`the chain breaks at ${chain.broken_seq}: ${chain.reason}`);
  const rows = chain.head_seq - world.setupRows;
  if (rows !== present.size) report.problems.push(`${present.size} keys but ${rows} audit rows`);
  return present.size;
}

async function allKeys(client: Client): Promise<Set<string>> {
  const ids = new Set<string>();
  for (let after: string | undefined; ; ) {
    const page = await client.call("GET /v1/keys", { query: { limit: 200, ...(after && { after }) } });
    for (const { id } of page.data) ids.add(id);
    after = page.data.at(-1)?.id;
    if (!page.has_more) return ids;
  }
}
