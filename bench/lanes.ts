// What the fast lane saves: CPU time of the server per request, h3 alone (KEYRACK_FAST_LANE=off) beside the fast lane.
// One row per endpoint declared `hot`; an endpoint whose row stays under 1.05 is not worth its place there.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startServer } from "../harness/processes/server.ts";
import type { LoadOptions } from "./client.ts";
import { microsEach } from "./micros.ts";
import { bodyOf } from "./ratelimit.ts";
import { interleave, type Row } from "./report.ts";
import type { RowName } from "./rows.ts";
import { mintLoad, readLoad, worldOf, type World } from "./vendor.ts";

const ROUNDS = 3;
const HASH = "a".repeat(64);

type Case = { status: string; ask: (world: World) => LoadOptions | Promise<LoadOptions> };

const get = (path: (world: World) => string, status: string): Case => ({
  status,
  ask: (world) => ({ url: world.url + path(world), headers: { authorization: `Bearer ${world.bearer}` } }),
});

const post = (path: string, body: (world: World) => string, status = "200"): Case => ({
  status,
  ask: (world) => ({ ...mintLoad(world), url: world.url + path, body: body(world) }),
});

const scoped = (more: object) => () => JSON.stringify({ scope_hash: HASH, env: "live", ...more });

function batchOf({ project_id, tenant_id }: World): string {
  const event = {
    ts: new Date().toISOString(),
    project_id,
    env: "live",
    tenant_id,
    method: "GET",
    path: "/orders",
    route: "/orders",
    status: 200,
    duration_ms: 3,
    degraded: false,
    request_id: "bench",
  };
  const sdk = { name: "bench", version: "1.0.0" };
  return JSON.stringify({ object: "ingest_batch", protocol_version: 1, node_id: "bench", sdk, events: [event] });
}

const CASES = {
  "lanes/check": post("/v1/ratelimit/check", ({ project_id, tenant_id }) => bodyOf(project_id, tenant_id)),
  "lanes/lease": post("/v1/ratelimit/lease", ({ project_id, tenant_id }) => {
    const { cost: _cost, ...subject } = JSON.parse(bodyOf(project_id, tenant_id)) as Record<string, unknown>;
    return JSON.stringify({ ...subject, want: 1 });
  }),
  "lanes/return": post("/v1/ratelimit/return", ({ project_id }) => JSON.stringify({ lease_id: project_id, unused: 1 })),
  "lanes/claim": post("/v1/idempotency/claim", scoped({ fingerprint: HASH })),
  "lanes/complete": post("/v1/idempotency/complete", scoped({ lock_token: "none-such", status: 200 })),
  "lanes/release": post("/v1/idempotency/release", scoped({ lock_token: "none-such" })),
  "lanes/heartbeat": post("/v1/idempotency/heartbeat", scoped({ lock_token: "none-such" })),
  "lanes/ingest": post("/v1/ingest/batch", batchOf, "202"),
  "lanes/delta": get(({ project_id }) => `/v1/policy/delta?project_id=${project_id}&since=1&node=bench`, "304"),
  "lanes/snapshot": get(({ project_id }) => `/v1/policy/snapshot?project_id=${project_id}`, "200"),
  "lanes/mint": { status: "201", ask: mintLoad },
  "lanes/get-by-id": { status: "200", ask: readLoad },
} satisfies Partial<Record<RowName, Case>>;

async function micros(lane: "on" | "off", { ask, status }: Case): Promise<number> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-bench-"));
  const file = join(dir, "keyrack.toml");
  writeFileSync(file, `fast_lane = "${lane}"\ningest_events_per_minute = 1000000000\n`);
  const server = await startServer(["--ephemeral", "--seed", "--config", file]);
  rmSync(dir, { recursive: true });
  try {
    const world = worldOf(server);
    return await microsEach(world.pid, await ask(world), status);
  } finally {
    await server.end("SIGTERM");
  }
}

export async function lanes(): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [name, test] of Object.entries(CASES) as [keyof typeof CASES, Case][]) {
    const { fast, h3 } = await interleave(ROUNDS, { fast: () => micros("on", test), h3: () => micros("off", test) });
    rows.push({ name, ours: fast, peer: h3, ratio: h3 / fast, target: ">= 1.05", unit: "µs" });
  }
  return rows;
}
