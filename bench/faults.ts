// p99 of ratelimit/check over HTTP while Redis is killed, paused or flushed under 50 clients, compared with the
// promised 250 ms. Every response must be a 200.
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { startServer } from "../harness/processes/server.ts";
import { startRedis, type OwnRedis } from "../harness/databases/redis.ts";
import { load } from "./client.ts";
import { bodyOf } from "./ratelimit.ts";
import type { Row } from "./report.ts";

const PROMISED_MS = 250;
const FOR_MS = 4_000;

async function flush({ url }: OwnRedis): Promise<void> {
  const client = new Redis(url);
  await client.flushall();
  await client.script("FLUSH");
  client.disconnect();
}

const faultsOf: Record<"killed" | "paused" | "flushed", (redis: OwnRedis) => Promise<void>> = {
  killed: async (redis) => {
    await redis.kill();
    await sleep(FOR_MS / 4);
    await redis.start();
  },
  paused: async (redis) => {
    redis.signal("SIGSTOP");
    await sleep(FOR_MS / 4);
    redis.signal("SIGCONT");
  },
  flushed: async (redis) => {
    for (let i = 0; i < 10; i++) {
      await flush(redis);
      await sleep(FOR_MS / 40);
    }
  },
};

async function p99During(fault: (redis: OwnRedis) => Promise<void>): Promise<number> {
  const redis = await startRedis();
  if (!redis) throw new Error("redis-server is needed");
  const server = await startServer(["--ephemeral", "--seed", "--redis-url", redis.url]);
  try {
    const { url, secret_key, project_id, tenant_id } = server.ready as Record<string, string>;
    const under = load({
      url: `${url}/v1/ratelimit/check`,
      method: "POST",
      headers: { authorization: `Bearer ${secret_key}`, "content-type": "application/json" },
      body: bodyOf(project_id ?? "", tenant_id ?? ""),
      warmMs: 1_000,
      forMs: FOR_MS,
    });
    await sleep(1_000 + FOR_MS / 4);
    await fault(redis);
    const { p99Ms, statuses } = await under;
    if (Object.keys(statuses).join() !== "200") throw new Error(`the statuses were ${JSON.stringify(statuses)}`);
    return p99Ms;
  } finally {
    await server.end("SIGTERM");
    await redis.stop();
  }
}

export async function faults(): Promise<Row[]> {
  const rows: Row[] = [];
  for (const name of ["killed", "paused", "flushed"] as const) {
    const ours = await p99During(faultsOf[name]);
    rows.push({
      name: `faults/${name}`,
      ours,
      peer: PROMISED_MS,
      ratio: ours / PROMISED_MS,
      target: "<= 1",
      unit: "ms",
    });
  }
  return rows;
}
