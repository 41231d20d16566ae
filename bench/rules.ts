// What restrictions of keys cost: capabilities in the feed, suspending a tenant, bulk changes, the holder's own
// endpoint, and minting under a key policy with a prefix; each beside the same without them.
import { join } from "node:path";
import Database from "better-sqlite3";
import { startServer } from "../harness/processes/server.ts";
import type { LoadOptions } from "./client.ts";
import { cpuMicros, microsIn } from "./micros.ts";
import { interleave, median, type Row } from "./report.ts";
import type { RowName } from "./rows.ts";
import { agent, call, fill, filledId, idle, KEYS, onSeededServer, takeSnapshot, type Ready } from "./snapshots.ts";
import { inTurns, perSecond, type Pair, type Side } from "./turns.ts";
import { mintLoad, readLoad, worldOf, type World } from "./vendor.ts";

const CAPS = "&caps=cidr,disabled,formats,quotas";
const ROUNDS = 5;
/** CPU times of one snapshot differ by up to a third. */
const SNAPSHOT_ROUNDS = 9;
/** Nodes after the first, to average their cost: CPU time is counted in hundredths of a second. */
const LATER_NODES = 10;
const LISTED_EVERY = 10;
const MANY = 10_000;
const BULK_LIMIT = 500;
const CLIENTS = 50;

const ratioOf = (name: RowName, ours: number, peer: number, target: string, unit: string): Row => {
  return { name, ours, peer, ratio: ours / peer, target, unit };
};

async function change(ready: Ready, path: string, body: object, method = "POST"): Promise<string> {
  const reply = await call(ready, path, method, JSON.stringify(body));
  if (reply.status >= 300) throw new Error(`${method} ${path}: ${reply.status} ${reply.body.toString()}`);
  return reply.body.toString();
}

const LIST = { allowed_cidrs: ["203.0.113.0/24", "2001:db8::/32"] };

/** Every tenth key may be used from two networks only. */
async function restrict(ready: Ready): Promise<void> {
  fill(ready, KEYS);
  await change(ready, `/v1/keys/${filledId(0)}`, LIST, "PATCH"); // by the server: the project uses lists from now on
  await idle(ready.pid);
  const db = new Database(join(ready.data_dir, "keyrack.db"), { timeout: 5_000 });
  const listed = Array.from({ length: KEYS / LISTED_EVERY }, (_, i) => filledId(i * LISTED_EVERY));
  const update = db.prepare("update api_keys set allowed_cidrs = ? where id = ?");
  const text = JSON.stringify(LIST.allowed_cidrs);
  db.transaction(() => listed.forEach((id) => update.run(text, id))).immediate();
  db.pragma("wal_checkpoint(PASSIVE)");
  db.close();
  await call(ready, `/v1/policy/delta?project_id=${ready.project_id}&since=2`);
  await idle(ready.pid);
}

type SnapshotCpu = { first: number; later: number };

/**
 * CPU milliseconds of the server for a snapshot, and for a second node's. Nodes without capabilities get nine keys of
 * ten.
 */
async function snapshotCpu(caps: string): Promise<SnapshotCpu> {
  return onSeededServer(async (ready) => {
    await restrict(ready);
    const pages = caps === "" ? 9 : 10;
    const start = cpuMicros(ready.pid);
    await takeSnapshot(ready, "identity", caps, pages);
    await idle(ready.pid); // pages are still being compressed: part of the first node's cost
    const first = cpuMicros(ready.pid);
    for (let node = 0; node < LATER_NODES; node++) await takeSnapshot(ready, "zstd", caps, pages);
    return { first: (first - start) / 1000, later: (cpuMicros(ready.pid) - first) / 1000 / LATER_NODES };
  });
}

async function snapshots(): Promise<Row[]> {
  const seen: { ours: SnapshotCpu; peer: SnapshotCpu }[] = [];
  for (let round = 0; round < SNAPSHOT_ROUNDS; round++) {
    const before = round % 2 === 0 ? await snapshotCpu(CAPS) : null; // each is the first of a pair in turn
    const peer = await snapshotCpu("");
    seen.push({ ours: before ?? (await snapshotCpu(CAPS)), peer });
  }
  const of = (pick: (one: (typeof seen)[number]) => number): number => median(seen.map(pick));
  const [ours, peer] = [of((one) => one.ours.first), of((one) => one.peer.first)];
  const ratio = of((one) => one.ours.first / one.peer.first);
  const later = of((one) => one.ours.later);
  return [
    { name: "rules/snapshot", ours, peer, ratio, target: "<= 1.25", unit: "ms" },
    ratioOf("rules/second-snapshot", later, ours, "<= 0.1", "ms"),
  ];
}

/** Unchanged polls of a project that uses lists. Of one server: two would differ by more than capabilities may cost. */
function polls(): Promise<Pair> {
  let server: Awaited<ReturnType<typeof startServer>>;
  const begin = async (): Promise<void> => {
    server = await startServer(["--ephemeral", "--seed"]);
    const ready = server.ready as unknown as Ready;
    const { id } = JSON.parse(await change(ready, "/v1/keys", mintOf(ready))) as { id: string };
    await change(ready, `/v1/keys/${id}`, LIST, "PATCH");
  };
  const sideOf = (caps: string, end: () => Promise<unknown>): Side => {
    const ready = server.ready as unknown as Ready;
    const url = `${ready.url}/v1/policy/delta?since=3&node=bench&project_id=${ready.project_id}${caps}`;
    const headers = { authorization: `Bearer ${ready.secret_key}` };
    return { measure: ({ forMs }) => microsIn(ready.pid, { url, headers, forMs }, "304"), end };
  };
  return inTurns({
    ours: () => begin().then(() => sideOf(CAPS, async () => {})),
    peer: async () => sideOf("", () => server.end("SIGTERM")),
  });
}

const mintOf = ({ project_id, tenant_id }: Ready) => ({ project_id, tenant_id, env: "live" });

/** Milliseconds until the response. */
function endTenant(route: (tenant: string) => [method: string, path: string]): Promise<number> {
  return onSeededServer(async (ready) => {
    fill(ready, MANY);
    await idle(ready.pid);
    const [method, path] = route(ready.tenant_id);
    const { status, ms } = await call(ready, path, method, method === "POST" ? "{}" : undefined);
    if (status !== 200) throw new Error(`${path}: ${status}`);
    return ms;
  });
}

/** Keys a second. */
function revokeInBulk(): Promise<number> {
  return onSeededServer(async (ready) => {
    fill(ready, MANY);
    await idle(ready.pid);
    const body = { action: "revoke", filter: { tenant_id: ready.tenant_id }, limit: BULK_LIMIT };
    const start = performance.now();
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const answer = await change(ready, "/v1/bulk/keys", { ...body, ...(cursor && { cursor }) });
      cursor = (JSON.parse(answer) as { next_cursor: string | null }).next_cursor;
    }
    return MANY / ((performance.now() - start) / 1000);
  });
}

function revokeOneByOne(): Promise<number> {
  return onSeededServer(async (ready) => {
    fill(ready, MANY);
    await idle(ready.pid);
    let next = 0;
    const client = async (): Promise<void> => {
      while (next < MANY) await change(ready, `/v1/keys/${filledId(next++)}/revoke`, {});
    };
    const start = performance.now();
    await Promise.all(Array.from({ length: CLIENTS }, client));
    return MANY / ((performance.now() - start) / 1000);
  });
}

async function side(ask: (world: World) => Promise<LoadOptions>, status: string): Promise<Side> {
  const server = await startServer(["--ephemeral", "--seed"], { KEYRACK_THROTTLE: "off" });
  const options = await ask(worldOf(server));
  return { measure: (times) => perSecond({ ...options, ...times }, status), end: () => server.end("SIGTERM") };
}

async function sent({ url, bearer }: World, method: string, path: string, body: string): Promise<{ key: string }> {
  const headers = { authorization: `Bearer ${bearer}`, "content-type": "application/json" };
  const reply = await fetch(url + path, { method, headers, body });
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status}`);
  return (await reply.json()) as { key: string };
}

async function selfLoad(world: World): Promise<LoadOptions> {
  const { key } = await sent(world, "POST", "/v1/keys", world.mintBody);
  return { url: `${world.url}/v1/self`, headers: { authorization: `Bearer ${key}` } };
}

async function ruledMintLoad(world: World): Promise<LoadOptions> {
  const key_policy = {
    default_ttl_days: 90,
    max_ttl_days: 365,
    idle_revoke_days: 60,
    notice_days: [14, 3],
    holder_rotate: true,
  };
  const body = JSON.stringify({ key_prefix: "acme", key_policy });
  await sent(world, "PATCH", `/v1/projects/${world.project_id}`, body);
  return mintLoad(world);
}

export async function rules(): Promise<Row[]> {
  const pair = (name: RowName, measured: Pair, target: string): Row => ({ name, ...measured, target, unit: "/s" });
  const rows = await snapshots();
  const { ours, peer, ratio } = await polls();
  rows.push({ name: "rules/unchanged-poll", ours, peer, ratio: 1 / ratio, target: ">= 0.95", unit: "µs" });
  const alone = await interleave(ROUNDS, {
    suspend: () => endTenant((tenant) => ["POST", `/v1/tenants/${tenant}/suspend`]),
    remove: () => endTenant((tenant) => ["DELETE", `/v1/tenants/${tenant}`]),
    bulk: revokeInBulk,
    single: revokeOneByOne,
  });
  rows.push(
    ratioOf("rules/suspend", alone.suspend, alone.remove, "<= 1.5", "ms"),
    ratioOf("rules/bulk-revoke", alone.bulk, alone.single, ">= 3", "/s"),
  );
  const reads = await inTurns({ ours: () => side(selfLoad, "200"), peer: () => side(readLoad, "200") });
  const plainMint = async (world: World): Promise<LoadOptions> => mintLoad(world);
  const mints = await inTurns({ ours: () => side(ruledMintLoad, "201"), peer: () => side(plainMint, "201") });
  rows.push(pair("rules/self", reads, ">= 0.8"), pair("rules/mint", mints, ">= 0.95"));
  agent.destroy();
  return rows;
}
