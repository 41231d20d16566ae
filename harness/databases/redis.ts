// Starts a Redis for tests, or uses a given one, which is never flushed: tests use their own key prefix and delete it.
// A test kills, pauses or flushes only servers that it started itself; they are stopped by process id.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Redis } from "ioredis";
import { DEADLINE_MS, until } from "../waiting.ts";

const NOT_INSTALLED = "redis-server is not installed";

export type OwnRedis = {
  url: string;
  port: number;
  signal(name: NodeJS.Signals): void;
  /** SIGKILL, as in a crash; `start` starts an empty one on the same port. */
  kill(): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
};

/**
 * For `describe.runIf(hasRedis())`. Only hooks and tests start a server: what is started while tests are collected
 * stays behind when `-t` leaves out the tests whose hook would stop it.
 */
export function hasRedis(): boolean {
  if (process.env["KEYRACK_TEST_REDIS_URL"] !== undefined) return true;
  const found = spawnSync("sh", ["-c", "command -v redis-server"], { stdio: "ignore" }).status === 0;
  return found || missing(NOT_INSTALLED) !== null;
}

/** The Redis that KEYRACK_TEST_REDIS_URL names, else one of the test's own; null as below. */
export async function findRedis(): Promise<{ url: string; stop(): Promise<void> } | null> {
  const url = process.env["KEYRACK_TEST_REDIS_URL"];
  if (url === undefined) return startRedis();
  return (await listens(url)) ? { url, stop: async () => {} } : missing("nothing answers at KEYRACK_TEST_REDIS_URL");
}

/**
 * A server of the test's own, or null after a warning without `redis-server`; throws when KEYRACK_TEST_REQUIRE names
 * redis.
 */
export async function startRedis(args: string[] = []): Promise<OwnRedis | null> {
  let port = 0;
  let child: ChildProcess | null = null;
  try {
    for (let tries = 0; child === null && tries < 10; tries++) child = await launch((port = randomInt(...PORTS)), args);
  } catch {
    return missing(NOT_INSTALLED);
  }
  if (child === null) throw new Error("redis-server does not start");
  const kill = async () => {
    if (child === null) return;
    const gone = new Promise((resolve) => child!.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
    child = null;
  };
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    signal: (name) => void child?.kill(name),
    kill,
    start: async () => {
      child = await launch(port, args);
      if (child === null) throw new Error(`port ${port} was taken by another process`);
    },
    stop: kill,
  };
}

export type DurableRedis = OwnRedis & { dir: string };

/** A Redis that syncs every write before it replies; after `kill` and `start` it still has all of them. */
export async function startDurableRedis(more: string[] = []): Promise<DurableRedis> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-test-redis-"));
  const redis = await startRedis(["--dir", dir, "--appendonly", "yes", "--appendfsync", "always", ...more]);
  if (!redis) throw new Error("redis-server is needed");
  return {
    ...redis,
    dir,
    stop: async () => {
      await redis.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** Three masters that share the slots, without replicas. */
export async function startCluster(more: string[] = []): Promise<{ urls: string[]; stop(): Promise<void> } | null> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-cluster-"));
  const nodes: OwnRedis[] = [];
  const stop = async () => {
    for (const node of nodes) await node.stop();
    rmSync(dir, { recursive: true, force: true });
  };
  for (let i = 0; i < 3; i++) {
    const own = ["--cluster-enabled", "yes", "--cluster-config-file", join(dir, `nodes-${i}.conf`)];
    const node = await startRedis([...own, "--dir", dir, "--appenddirname", `aof-${i}`, ...more]);
    if (node === null) {
      await stop();
      return null;
    }
    nodes.push(node);
  }
  const clients = nodes.map((node) => new Redis(node.url));
  await Promise.all(clients.map((client, i) => client.call("CLUSTER", "ADDSLOTSRANGE", ...slots(i))));
  for (const node of nodes.slice(1)) await clients[0]!.call("CLUSTER", "MEET", "127.0.0.1", node.port);
  await until(async () => {
    const infos = await Promise.all(clients.map((client) => client.call("CLUSTER", "INFO")));
    return infos.every((info) => /cluster_state:ok/.test(String(info)) && /cluster_known_nodes:3/.test(String(info)));
  });
  for (const client of clients) client.disconnect();
  return { urls: nodes.map((node) => node.url), stop };
}

function slots(i: number): [number, number] {
  return [Math.floor((16384 * i) / 3), Math.floor((16384 * (i + 1)) / 3) - 1];
}

/** A key prefix that no other test has. */
export function ownPrefix(): string {
  return `keyrack-test-${randomBytes(9).toString("hex")}`;
}

export async function deleteKeys(url: string, prefix: string): Promise<void> {
  const client = new Redis(url);
  for await (const keys of client.scanStream({ match: `${prefix}:*`, count: 1000 })) {
    if ((keys as string[]).length > 0) await client.unlink(...(keys as string[]));
  }
  client.disconnect();
}

function missing(why: string): null {
  if ((process.env["KEYRACK_TEST_REQUIRE"] ?? "").split(/[\s,]+/).includes("redis"))
    throw new Error(`No Redis: ${why}.`);
  console.warn(`\n*** SKIPPED: tests that need Redis did not run, because ${why}. ***\n`);
  return null;
}

/**
 * Redis cannot let the system choose a port. A cluster node also listens on its port + 10,000; both are below the
 * ephemeral range and outside of that of unusedPort(), so that only another Redis of a test can take one.
 */
const PORTS = [12_000, 17_000] as const;

const children = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});

/** Resolves when it accepts connections, with null when the port is taken; throws when it is not installed. */
async function launch(port: number, args: string[]): Promise<ChildProcess | null> {
  const own = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
  const child = spawn("redis-server", [...own, ...args], { stdio: ["ignore", "pipe", "ignore"] });
  children.add(child);
  child.once("exit", () => children.delete(child));
  const lines = createInterface({ input: child.stdout });
  return new Promise((resolve, reject) => {
    lines.on("line", (line) => line.includes("Ready to accept connections") && resolve(child));
    child.once("exit", () => resolve(null));
    child.once("error", reject);
  });
}

async function listens(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url.split(",")[0]!);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port || 6379) });
    const settle = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(DEADLINE_MS, () => settle(false));
    socket.once("connect", () => settle(true));
    socket.once("error", () => settle(false));
  });
}
