// The limiter compared with its peers, each pair interleaved in one run.
// Note: to be comparable, the peer must count by the same name. Ours distinguishes workspace, project, environment, key
// and rule; a peer that counts by a bare key id does less work. Both are measured, with the same target.
import { randomBytes, randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import type { CheckRequest, Counter } from "../src/ratelimit/counter.ts";
import { memoryCounter } from "../harness/ratelimit/memory-counter.ts";
import { RedisCounter } from "../src/ratelimit/redis/counter.ts";
import type { RateLimit } from "../src/kernel/ratelimit/rule.ts";
import { median, type Row } from "./report.ts";
import type { RowName } from "./rows.ts";

type Peer = { consume(key: string, points: number): Promise<{ remainingPoints: number }> };
type PeerModule = {
  RateLimiterMemory: new (options: object) => Peer;
  RateLimiterRedis: new (options: object) => Peer;
};

const IDS = 10_000;
const ROUNDS = 21;
const IN_FLIGHT = 50;
const LEASE = 100;

const rule: RateLimit = {
  id: "default",
  limit: 1_000_000_000,
  window_ms: 60_000,
  algorithm: "sliding",
  scope: "key",
};
const limits = [rule];
// Through a buffer: strings from a parsed body are flat, randomUUID's are ropes.
const uuid = () => Buffer.from(randomUUID()).toString("latin1");
const workspace_id = uuid();
const project_id = uuid();
const ids = Array.from({ length: IDS }, uuid);
const order = Uint16Array.from({ length: 65_536 }, () => randomBytes(2).readUInt16LE() % IDS);
const idAt = (i: number) => ids[order[i & 65_535]!]!;

function request(i: number): CheckRequest {
  return { workspace_id, project_id, env: "live", key_id: idAt(i), tenant_id: null, cost: 1, limits };
}

/** The same counter for the peer, as one text. */
function nameAt(i: number): string {
  const { scope, id, algorithm, window_ms } = rule;
  return `${workspace_id}/${project_id}/live/${scope}/${idAt(i)}/${id}/${algorithm}/${window_ms}`;
}

export async function limiter(): Promise<Row[]> {
  const peers = await loadPeers();
  const rows = await memory(peers);
  const url = process.env["KEYRACK_TEST_REDIS_URL"] ?? "redis://127.0.0.1:6379";
  const prefix = `keyrack-bench-${randomBytes(6).toString("hex")}`;
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null });
  const up = await client.connect().then(
    () => true,
    () => false,
  );
  if (up) {
    rows.push(await shared(peers, url, prefix, client), await leases(url, prefix, client));
    await cleanUp(client, prefix);
  } else console.warn("limiter: no Redis found, so its rows are missing");
  client.disconnect();
  return rows;
}

async function memory(peers: PeerModule): Promise<Row[]> {
  const counter = memoryCounter(() => Date.now());
  const options = { points: rule.limit, duration: rule.window_ms / 1_000 };
  const [named, bare] = [new peers.RateLimiterMemory(options), new peers.RateLimiterMemory(options)];
  const count = 25_000;
  let sink = 0;
  const [ours, peer, bareId] = await interleaved([
    () => nsEach(count, (i) => (sink += counter.check(request(i)).policies[0]!.remaining)),
    () => nsEachAsync(count, async (i) => (sink += (await named.consume(nameAt(i), 1)).remainingPoints)),
    () => nsEachAsync(count, async (i) => (sink += (await bare.consume(idAt(i), 1)).remainingPoints)),
  ]);
  if (sink === 0) throw new Error("nothing was counted");
  return [
    row("limiter/check", "ns", ours!, peer!, "<= 0.35"),
    row("limiter/check-bare-id", "ns", ours!, bareId!, "<= 0.35"),
  ];
}

async function shared(peers: PeerModule, url: string, prefix: string, storeClient: Redis): Promise<Row> {
  const counter = new RedisCounter({ urls: [url], prefix, timeoutMs: 10_000 });
  await counter.ready(2_000);
  const peer = new peers.RateLimiterRedis({
    storeClient,
    keyPrefix: `${prefix}:peer`,
    points: rule.limit,
    duration: rule.window_ms / 1_000,
  });
  const [ours, theirs] = await interleaved([
    () => perSecond(4_000, (i) => counter.check(request(i))),
    () => perSecond(4_000, (i) => peer.consume(nameAt(i), 1)),
  ]);
  counter.close();
  return row("limiter/redis-check", "/s", ours!, theirs!, ">= 1.3");
}

async function leases(url: string, prefix: string, client: Redis): Promise<Row> {
  const counter = new RedisCounter({ urls: [url], prefix, timeoutMs: 10_000 });
  await counter.ready(2_000);
  const spenders = Array.from({ length: IN_FLIGHT }, (_, i) => spender(counter, request(i)));
  const [ours, theirs] = await interleaved([
    () => perSecond(200_000, (_, caller) => spenders[caller]!()),
    () => perSecond(4_000, () => client.ping()),
  ]);
  counter.close();
  return row("limiter/lease", "/s", ours!, theirs!, ">= 10");
}

/** Spends locally while the lease lasts, measured from before the request, as a client would. */
function spender(counter: Counter, asked: CheckRequest): () => Promise<void> | undefined {
  let left = 0;
  let end = 0;
  const renew = async () => {
    const now = Date.now();
    const lease = await counter.lease({ ...asked, want: LEASE });
    left = lease.granted;
    end = now + lease.expires_in_ms;
  };
  return () => {
    if (left > 0 && Date.now() < end) {
      left--;
      return undefined;
    }
    return renew();
  };
}

/** Runs each contender once per round, so that noise affects all of them; the first round is warm-up. */
async function interleaved(contenders: (() => Promise<number>)[]): Promise<number[][]> {
  const results: number[][] = contenders.map(() => []);
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [n, contender] of contenders.entries()) results[n]![round] = await contender();
  }
  return results.map((all) => all.slice(1));
}

async function nsEach(count: number, work: (i: number) => void): Promise<number> {
  const start = process.cpuUsage();
  for (let i = 0; i < count; i++) work(i);
  return nsSince(start) / count;
}

async function nsEachAsync(count: number, work: (i: number) => Promise<unknown>): Promise<number> {
  const start = process.cpuUsage();
  for (let i = 0; i < count; i++) await work(i);
  return nsSince(start) / count;
}

/** CPU time, which other processes on the machine do not affect. */
function nsSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start);
  return (user + system) * 1_000;
}

async function perSecond(count: number, work: (i: number, caller: number) => unknown): Promise<number> {
  const start = performance.now();
  let next = 0;
  await Promise.all(
    Array.from({ length: IN_FLIGHT }, async (_, caller) => {
      while (next < count) {
        const waiting = work(next++, caller);
        if (waiting instanceof Promise) await waiting;
      }
    }),
  );
  return (count * 1_000) / (performance.now() - start);
}

/** The medians of both, and the median of their ratios within a round, which noise affects least. */
function row(name: RowName, unit: string, ours: number[], peer: number[], target: string): Row {
  const ratio = median(ours.map((one, round) => one / peer[round]!));
  return { name, ours: median(ours), peer: median(peer), ratio, target, unit };
}

async function cleanUp(client: Redis, prefix: string): Promise<void> {
  for await (const keys of client.scanStream({ match: `${prefix}:*`, count: 1_000 })) {
    if ((keys as string[]).length > 0) await client.unlink(...(keys as string[]));
  }
}

async function loadPeers(): Promise<PeerModule> {
  const entry = new URL("./peers/node_modules/rate-limiter-flexible/index.js", import.meta.url);
  return ((await import(entry.href)) as { default: PeerModule }).default;
}
