// A disk that fills up under a running server: writes get 503, reads and rate limits continue, and writes resume when
// there is space again, without a restart. No acknowledged write may be missing, no refused one may be stored.
// The disk is a small tmpfs, so this needs root and a mount.
import { spawnSync } from "node:child_process";
import {
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, ApiError, type Client } from "../harness/api-client.ts";
import { connectSqlite } from "../src/store/sqlite/open.ts";
import type { Campaign } from "./campaign.ts";
import { seeded } from "../harness/random.ts";
import { startServer, type Running } from "../harness/processes/server.ts";

/** More than the maximum size of the -wal (a little over 64 MiB), which could otherwise fill the disk for good. */
const DISK_BYTES = 128 * 1024 * 1024;
const WRITES_MAX = 4_000;
const CLIENTS = 8;
const REFUSALS_EACH = 5;
/** The chain is verified more often than the throttle allows, and the whole disk is smaller than what is kept free. */
const OPEN = { KEYRACK_THROTTLE: "off", KEYRACK_DISK_RESERVE_MB: "0" };

type DiskFullOptions = { rounds: number; seed: number; print?: (line: string) => void };
type DiskFullReport = {
  campaign: "disk-full";
  seed: number;
  rounds: number;
  acknowledged: number;
  refused: number;
  /** Successful requests that must work while the disk is full. */
  answeredWhileFull: number;
  problems: string[];
  /** Why nothing was run. */
  skipped: string | null;
};

type World = { client: Client; url: string; secretKey: string; project_id: string; tenant_id: string; rows: number };

/** A tmpfs, unmounted at the end; null when none can be mounted. */
function smallDisk(bytes: number): (Disposable & { dir: string }) | null {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-disk-"));
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${bytes}`, "tmpfs", dir]).status === 0;
  const remove = (): void => {
    if (mounted) spawnSync("umount", [dir]);
    rmdirSync(dir);
  };
  if (mounted) return { dir, [Symbol.dispose]: remove };
  remove();
  return null;
}

export async function diskFull({ rounds, seed, print = () => {} }: DiskFullOptions): Promise<DiskFullReport> {
  const nothing = { acknowledged: 0, refused: 0, answeredWhileFull: 0, problems: [], skipped: null };
  const report: DiskFullReport = { campaign: "disk-full", seed, rounds: 0, ...nothing };
  using disk = smallDisk(DISK_BYTES);
  if (!disk) return { ...report, skipped: "no tmpfs can be mounted here (it takes root)" };
  const random = seeded(seed);
  const keys = new Set<string>();
  const args = ["--data-dir", join(disk.dir, "data")];
  const filler = join(disk.dir, "filler");
  let server = await startServer(args, OPEN);
  try {
    const world = await setUp(server);
    while (report.rounds < rounds && report.problems.length === 0) {
      await writeAgain(world, keys, report);
      const left = random.int(0, 256) * 1_024;
      fill(filler, left);
      await writeUntilRefused(world, keys, report);
      await askWhileFull(world, keys, report);
      rmSync(filler);
      await writeAgain(world, keys, report);
      await check(world, keys, report);
      report.rounds++;
      print(`round ${report.rounds}: ${left} bytes left, ${keys.size} acknowledged, ${report.refused} refused`);
    }
    const ended = await server.end("SIGTERM");
    if (ended !== 0) report.problems.push(`the server ended with ${ended}`);
    server = await startServer(args, OPEN);
    await check(worldOf(server, world), keys, report);
  } finally {
    await server.end("SIGTERM");
  }
  const whole = integrity(join(disk.dir, "data", "keyrack.db"));
  if (whole !== "ok") report.problems.push(`the database is not whole: ${whole}`);
  report.acknowledged = keys.size;
  return report;
}

function integrity(file: string): string {
  const db = connectSqlite(file, { readonly: true, timeout: 0 });
  try {
    return String(db.pragma("integrity_check", { simple: true }));
  } finally {
    db.close();
  }
}

async function setUp(server: Running): Promise<World> {
  const { url, bootstrap_token_file } = server.ready;
  const boot = createClient({ url, bearer: readFileSync(String(bootstrap_token_file), "utf8").trim() });
  const { secret_key } = await boot.call("POST /v1/workspaces", { body: { name: "Full", slug: "full" } });
  const client = createClient({ url, bearer: secret_key.key });
  const project = await client.call("POST /v1/projects", { body: { name: "P", slug: "ppp" } });
  const tenant = await client.call("POST /v1/tenants", { body: { external_id: "t" } });
  const { head_seq: rows } = await client.call("GET /v1/audit_logs/chain", {});
  return { client, url, secretKey: secret_key.key, project_id: project.id, tenant_id: tenant.id, rows };
}

function worldOf({ ready: { url } }: Running, world: World): World {
  return { ...world, url, client: createClient({ url, bearer: world.secretKey }) };
}

/** Fills the disk except for `leave` bytes. */
function fill(file: string, leave: number): void {
  const fd = openSync(file, "w");
  for (let piece = 1 << 20; piece >= 1_024; ) {
    try {
      if (writeSync(fd, Buffer.alloc(piece)) === piece) continue;
    } catch {
      // no room for a piece of this size
    }
    piece >>= 1;
  }
  closeSync(fd);
  truncateSync(file, Math.max(0, statSync(file).size - leave));
}

/** Mints a key; the status when it is refused. */
async function mint({ client, project_id, tenant_id }: World, keys: Set<string>): Promise<number> {
  try {
    const { id } = await client.call("POST /v1/keys", { body: { project_id, tenant_id, env: "live" } });
    keys.add(id);
    return 201;
  } catch (error) {
    if (error instanceof ApiError) return error.status;
    throw error;
  }
}

/** The free space in the -wal is used first, so the first writes still succeed. */
async function writeUntilRefused(world: World, keys: Set<string>, report: DiskFullReport): Promise<void> {
  let tries = 0;
  const write = async (): Promise<void> => {
    for (let refusals = 0; refusals < REFUSALS_EACH && tries < WRITES_MAX; tries++) {
      const status = await mint(world, keys);
      if (status === 201) continue;
      refusals++;
      report.refused++;
      if (status !== 503) report.problems.push(`a write on a full disk was answered ${status}`);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, write));
  if (tries >= WRITES_MAX) report.problems.push("the disk never filled up");
}

/** Requests that write nothing must work: reads, the policy feed, rate limits, probes. */
async function askWhileFull(world: World, keys: Set<string>, report: DiskFullReport): Promise<void> {
  const { client, project_id, tenant_id, url } = world;
  const limits = [{ id: "m", limit: 1_000, window_ms: 60_000, algorithm: "sliding", scope: "tenant" }] as const;
  const check = { project_id, env: "live" as const, key_id: null, tenant_id, cost: 1, limits: [...limits] };
  const probe = async (path: string): Promise<void> => {
    const { status } = await fetch(url + path);
    if (status !== 200) throw new Error(`${path} was answered ${status}`);
  };
  const [id = ""] = keys;
  const asks: Record<string, () => Promise<unknown>> = {
    "a key": () => client.call("GET /v1/keys/{id}", { params: { id } }),
    "the list of keys": () => client.call("GET /v1/keys", { query: { limit: 200 } }),
    "the audit log": () => client.call("GET /v1/audit_logs", { query: { limit: 10 } }),
    "the policy": () => client.call("GET /v1/policy/snapshot", { query: { project_id } }),
    "a rate limit": () => client.call("POST /v1/ratelimit/check", { body: check }),
    liveness: () => probe("/healthz"),
    readiness: () => probe("/readyz"),
    status: () => probe("/status"),
  };
  for (const [what, ask] of Object.entries(asks)) {
    try {
      await ask();
      report.answeredWhileFull++;
    } catch (error) {
      report.problems.push(`with a full disk, ${what}: ${(error as Error).message}`);
    }
  }
}

async function writeAgain(world: World, keys: Set<string>, report: DiskFullReport): Promise<void> {
  for (let i = 0; i < 10; i++) {
    const status = await mint(world, keys);
    if (status !== 201) report.problems.push(`with room, a write was answered ${status}`);
  }
}

/** Exactly the acknowledged keys are stored, each with its audit row, and the chain verifies. */
async function check({ client, rows }: World, keys: Set<string>, report: DiskFullReport): Promise<void> {
  const present = new Set<string>();
  let after: string | undefined;
  for (let more = true; more; ) {
    const page = await client.call("GET /v1/keys", { query: { limit: 200, ...(after && { after }) } });
    for (const { id } of page.data) present.add(id);
    after = page.data.at(-1)?.id;
    more = page.has_more === true;
  }
  const lost = [...keys].filter((id) => !present.has(id));
  if (lost.length > 0) report.problems.push(`${lost.length} acknowledged keys are missing, ${lost[0]} for one`);
  if (present.size > keys.size) report.problems.push(`${present.size - keys.size} refused keys are there`);
  const chain = await client.call("GET /v1/audit_logs/chain", {});
  if (!chain.verified) report.problems.push(`the chain breaks at ${chain.broken_seq}: ${chain.reason}`);
  if (chain.head_seq - rows !== present.size)
    report.problems.push(`${present.size} keys but ${chain.head_seq - rows} audit rows`);
}

export const diskFullCampaign: Campaign = {
  name: "disk-full",
  promise: "P1",
  claim: "a full disk refuses writes with 503 while reads and limits continue, and nothing is lost or corrupt",
  rounds: 20,
  round: "disk filled and freed again",
  backends: ["sqlite"],
  async run({ rounds, seed, print }, tally) {
    const report = await diskFull({ rounds, seed, print });
    if (report.skipped) tally.skipped = report.skipped;
    for (const problem of report.problems) tally.failed(seed, problem);
    tally.rounds = report.rounds;
    tally.count("acknowledged", report.acknowledged);
    tally.count("refused", report.refused);
    tally.count("responses while full", report.answeredWhileFull);
  },
};
