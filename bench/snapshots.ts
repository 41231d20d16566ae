// Snapshots of large projects over HTTP, for the benchmarks of the feed: a server, keys inserted directly, and a node
// that fetches every page.
import { randomBytes } from "node:crypto";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { zstdDecompressSync } from "node:zlib";
import Database from "better-sqlite3";
import { startServer } from "../harness/processes/server.ts";
import { cpuMicros } from "./micros.ts";

export const KEYS = 100_000;
const PAGE = 10_000;

export type Ready = {
  url: string;
  secret_key: string;
  project_id: string;
  tenant_id: string;
  data_dir: string;
  pid: number;
};

export async function onSeededServer<T>(work: (ready: Ready) => Promise<T>): Promise<T> {
  const server = await startServer(["--ephemeral", "--seed"]);
  try {
    return await work(server.ready as unknown as Ready);
  } finally {
    await server.end("SIGTERM");
  }
}

export const agent = new Agent({ keepAlive: true, maxSockets: 8_192 });

type Got = { status: number; body: Buffer; ms: number };

export function call(ready: Ready, path: string, method = "GET", body?: string, accept = "identity"): Promise<Got> {
  const start = performance.now();
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${ready.secret_key}`,
      "accept-encoding": accept,
      ...(body !== undefined && { "content-type": "application/json", "content-length": body.length }),
    };
    const req = request(ready.url + path, { method, agent, headers }, (res) => {
      const chunks: Buffer[] = [];
      res.on("data", (chunk: Buffer) => chunks.push(chunk));
      res.on("end", () =>
        resolve({ status: res.statusCode ?? 0, body: Buffer.concat(chunks), ms: performance.now() - start }),
      );
    });
    req.on("error", reject);
    req.end(body);
  });
}

/** Waits until the process uses no CPU. */
export async function idle(pid: number): Promise<void> {
  for (let before = -1, now = cpuMicros(pid); now !== before; now = cpuMicros(pid)) {
    before = now;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** Inserts keys directly: minting is another benchmark. */
export function fill(ready: Ready, count: number, tenants = [ready.tenant_id]): string {
  const file = join(ready.data_dir, "keyrack.db");
  const db = new Database(file, { timeout: 5_000 });
  const { workspace_id } = db.prepare("select workspace_id from projects where id = ?").get(ready.project_id) as {
    workspace_id: string;
  };
  const insert = db.prepare(`insert into api_keys (id, workspace_id, project_id, tenant_id, env, lookup_hash,
    display_prefix, scopes, created_at, policy_version) values (?, ?, ?, ?, 'live', ?, ?, ?, ?, 1)`);
  const scopes = JSON.stringify(["orders:read", "orders:write", "customers:read"]);
  db.transaction(() => {
    for (let i = 0; i < count; i++) {
      const id = filledId(i);
      const hash = randomBytes(32).toString("hex");
      const tenant = tenants[i % tenants.length];
      insert.run(id, workspace_id, ready.project_id, tenant, hash, `kr_live_${id.slice(-6)}`, scopes, Date.now());
    }
  })();
  db.pragma("wal_checkpoint(PASSIVE)");
  db.close();
  return file;
}

/** The id of the n-th key of `fill`. */
export const filledId = (n: number): string => `01990000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;

/** Fetches all pages, with `more` in the query; returns milliseconds. */
export async function takeSnapshot(
  ready: Ready,
  accept: "identity" | "zstd",
  more = "",
  pages = KEYS / PAGE,
): Promise<number> {
  const start = performance.now();
  let fetched = 0;
  for (let cursor = ""; ; ) {
    const path = `/v1/policy/snapshot?project_id=${ready.project_id}&max_keys=${PAGE}${more}${cursor}`;
    const { body, status } = await call(ready, path, "GET", undefined, accept);
    if (status !== 200) throw new Error(body.toString());
    const text = accept === "zstd" ? zstdDecompressSync(body) : body;
    const [, next] = /"next_cursor":"([^"]+)"\}$/.exec(text.toString("latin1", text.length - 600)) ?? [];
    fetched += 1;
    if (!next) break;
    cursor = `&cursor=${next}`;
  }
  if (fetched !== pages) throw new Error(`there were ${fetched} pages`);
  return performance.now() - start;
}
