// Does the cost of a mint depend on the number of keys? Keys are inserted directly, then minted over HTTP.
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { createClient } from "../harness/api-client.ts";
import { startServer } from "../harness/processes/server.ts";
import { load } from "./client.ts";
import { median, type Row } from "./report.ts";
import type { RowName } from "./rows.ts";

export const SIZES = [10_000, 100_000, 1_000_000] as const;
const ROUNDS = 5;

type World = { bearer: string; workspace_id: string; project_id: string; tenant_id: string };

async function makeWorld(dir: string): Promise<World> {
  const server = await startServer(["--data-dir", dir]);
  const token = readFileSync(String(server.ready.bootstrap_token_file), "utf8").trim();
  const boot = createClient({ url: server.ready.url, bearer: token });
  const { workspace, secret_key } = await boot.call("POST /v1/workspaces", { body: { name: "S", slug: "scale" } });
  const client = createClient({ url: server.ready.url, bearer: secret_key.key });
  const project = await client.call("POST /v1/projects", { body: { name: "P", slug: "ppp" } });
  const tenant = await client.call("POST /v1/tenants", { body: { external_id: "t" } });
  await server.end("SIGTERM");
  return { bearer: secret_key.key, workspace_id: workspace.id, project_id: project.id, tenant_id: tenant.id };
}

/** Inserts rows as minting would, oldest first. */
function fill(dir: string, world: World, count: number): void {
  const db = new Database(join(dir, "keyrack.db"));
  db.pragma("synchronous=OFF");
  const insert = db.prepare(
    `insert into api_keys (id, workspace_id, project_id, tenant_id, env, lookup_hash, display_prefix, created_at, policy_version)
     values (?, ?, ?, ?, 'live', ?, 'kr_live_abcdef', ?, ?)`,
  );
  const { n } = db.prepare("select count(*) as n from api_keys").get() as { n: number };
  const start = Date.now() - 86_400_000;
  db.transaction(() => {
    for (let i = n; i < count; i++) {
      const id = `01890a5d-${(i >>> 16).toString(16).padStart(4, "0")}-7${(i & 0xfff).toString(16).padStart(3, "0")}-8${((i >>> 12) & 0xf).toString(16)}00-${randomBytes(6).toString("hex")}`;
      insert.run(
        id,
        world.workspace_id,
        world.project_id,
        world.tenant_id,
        randomBytes(32).toString("hex"),
        start + i,
        1,
      );
    }
  })();
  db.close();
}

async function mintsPerSecond(dir: string, { bearer, project_id, tenant_id }: World): Promise<number> {
  const server = await startServer(["--data-dir", dir]);
  const result = await load({
    url: `${server.ready.url}/v1/keys`,
    method: "POST",
    headers: { authorization: `Bearer ${bearer}`, "content-type": "application/json" },
    body: JSON.stringify({ project_id, tenant_id, env: "live" }),
  });
  await server.end("SIGTERM");
  return result.perSecond;
}

/** Microseconds per mint for each number of keys, interleaved. */
export async function mintCosts(sizes: readonly number[]): Promise<number[]> {
  const stores = sizes.map((count) => ({
    count,
    dir: mkdtempSync(join(tmpdir(), "keyrack-bench-")),
    rates: [] as number[],
  }));
  try {
    const worlds = new Map<string, World>();
    for (const { dir, count } of stores) {
      const world = await makeWorld(dir);
      fill(dir, world, count);
      worlds.set(dir, world);
    }
    for (let round = 0; round < ROUNDS; round++) {
      for (const { dir, rates } of stores) rates.push(await mintsPerSecond(dir, worlds.get(dir) as World));
    }
    return stores.map(({ rates }) => 1e6 / median(rates));
  } finally {
    for (const { dir } of stores) rmSync(dir, { recursive: true, force: true });
  }
}

export async function scale(): Promise<Row[]> {
  const [few = Number.NaN, middle = Number.NaN, many = Number.NaN] = await mintCosts(SIZES);
  const row = (name: RowName, ours: number): Row => ({
    name,
    ours,
    peer: few,
    ratio: ours / few,
    target: "<= 1.2",
    unit: "µs",
  });
  return [row("scale/mint-1e5", middle), row("scale/mint-1e6", many)];
}
