// kill -9 while telemetry arrives and is added to the usage series: every projection equals the receipts and the daily
// figures.
import { setTimeout as sleep } from "node:timers/promises";
import { must, type World } from "../harness/instances/world.ts";
import { startServer, type Running } from "../harness/processes/server.ts";
import { seeded } from "../harness/random.ts";
import { telemetryBatch, telemetryEvent } from "../harness/telemetry.ts";
import { until } from "../harness/waiting.ts";
import { rounds, type Campaign, type Tally } from "./campaign.ts";
import { callOf, ENV, worldOn } from "./crash.ts";

const KEYS = 5;
/** More than a fold adds in one transaction. */
const BATCHES = 240;
const EVENTS = 4;
type Event = ReturnType<typeof telemetryEvent>;
/** What each series is grouped by, and the group of an event. */
const GROUPINGS: Record<string, (event: Event) => unknown> = {
  key: ({ key_id }) => key_id,
  tenant: ({ tenant_id }) => tenant_id,
  project: ({ project_id }) => project_id,
  route: ({ method, route }) => `${String(method)} ${String(route)}`,
  outcome: ({ denial_reason }) => denial_reason ?? "allowed",
  env: ({ env }) => env,
  "tag:region": ({ tags }) => (tags as { region: string }).region,
};

type Key = { id: string; tenant_id: string };
/** `accepted`: the events that the receipts have acknowledged. */
type Sender = { world: World; keys: Key[]; start: number; accepted: Event[] };

/** The same seed and number make the same batch, so that it can be sent again after a crash. */
function eventsOf({ world, keys, start }: Sender, seed: number, number: number): Event[] {
  const random = seeded(seed * 1_000 + number);
  return Array.from({ length: EVENTS }, (_, i) => {
    const { id: key_id, tenant_id } = keys[random.int(0, keys.length - 1)]!;
    return telemetryEvent({
      ts: new Date(start - random.int(0, 3 * 3_600_000)).toISOString(),
      project_id: world.project_id,
      tenant_id,
      key_id,
      route: `/route/${random.int(0, 9)}`,
      duration_ms: random.int(1, 500),
      ...(random.int(0, 4) === 0 && { denial_reason: "rate_limited", status: 429 }),
      tags: { region: ["eu", "us"][random.int(0, 1)] },
      request_id: `s${seed}-${number}-${i}`,
    });
  });
}

/** Sends until it is accepted: after a kill the same batch again. */
async function deliver(sender: Sender, seed: number, number: number, tally: Tally): Promise<void> {
  const events = eventsOf(sender, seed, number);
  const body = telemetryBatch(events);
  for (;;) {
    const reply = await sender.world.call(sender.world.key, "POST /v1/ingest/batch", body).catch(() => null);
    if (reply?.status === 202) {
      if (reply.body.accepted !== EVENTS) tally.failed(seed, `the receipt names ${reply.body.accepted} events`);
      sender.accepted.push(...events);
      return;
    }
    await sleep(20);
  }
}

/** Events by group, as a text that can be compared. */
function groupsOf(counts: Iterable<readonly [group: unknown, requests: number]>): string {
  const sums = new Map<string, number>();
  for (const [group, requests] of counts) sums.set(String(group), (sums.get(String(group)) ?? 0) + requests);
  return JSON.stringify([...sums].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** Events that are in the usage series; none if the server is too busy to respond. */
async function countFolded({ call, key }: World): Promise<number> {
  const { body } = await call(key, "GET /v1/usage/series?bucket=day");
  return body.total?.total.requests ?? 0;
}

async function check({ world, keys, accepted }: Sender, seed: number, tally: Tally): Promise<void> {
  const { call, key } = world;
  const series = (query: string) => must(call(key, `GET /v1/usage/series?bucket=day&${query}`));
  const receivedAt = Date.now();
  await until(async () => Date.parse((await series("")).as_of) >= receivedAt);
  type Line = { group: string; total: { requests: number } };
  for (const [grouping, groupOf] of Object.entries(GROUPINGS)) {
    const { series: lines, total } = await series(`group_by=${grouping}&top=100`);
    const found = groupsOf((lines as Line[]).map((line) => [line.group, line.total.requests]));
    const expected = groupsOf(accepted.map((event) => [groupOf(event), 1]));
    if (found !== expected) tally.failed(seed, `by ${grouping}: ${found} instead of ${expected}`);
    if (total.total.requests !== accepted.length)
      tally.failed(seed, `by ${grouping}: ${total.total.requests} of ${accepted.length} events`);
  }
  for (const { id } of keys) {
    const { data } = await must(call(key, `GET /v1/keys/${id}/usage`));
    const days = data.map(({ requests }: { requests: number }) => requests).slice(-2);
    const own = (await series(`key_id=${id}`)).total.requests.slice(-2);
    if (String(days) !== String(own)) tally.failed(seed, `key ${id}: ${own} instead of ${days} by day`);
  }
  tally.figures.events = accepted.length;
}

export const seriesCampaign: Campaign = {
  name: "series",
  promise: "P1",
  claim: "kill -9 while telemetry is counted leaves every usage series equal to the receipts and the daily figures.",
  rounds: 200,
  round: "kill",
  backends: ["sqlite", "postgres"],
  async run(options, tally) {
    const { scratch } = options;
    let server: Running = await startServer(scratch.args, ENV);
    try {
      const first = await worldOn(server, "series");
      const world = { ...first, call: callOf(() => server) };
      const { project_id } = world;
      const other = await must(world.call(world.key, "POST /v1/tenants", { external_id: "other" }));
      const mint = (_: unknown, n: number) => {
        const tenant_id = n % 2 === 0 ? world.tenant_id : (other.id as string);
        return must(world.call(world.key, "POST /v1/keys", { project_id, tenant_id, env: "live" }));
      };
      const keys = (await Promise.all(Array.from({ length: KEYS }, mint))) as Key[];
      const sender: Sender = { world, keys, start: Date.now(), accepted: [] };
      for (const seed of rounds(options, tally)) {
        const before = sender.accepted.length;
        const sent = Array.from({ length: BATCHES }, (_, number) => deliver(sender, seed, number, tally));
        await Promise.race(sent);
        // Odd seeds kill in the middle of a fold, after its first transaction; even ones at any time.
        if (seed % 2 === 0) await sleep(seeded(seed).int(0, 2_500));
        else await until(async () => (await countFolded(world)) > before);
        await server.end("SIGKILL");
        server = await startServer(scratch.args, ENV);
        await Promise.all(sent);
        await check(sender, seed, tally);
        tally.count("batches", BATCHES);
      }
    } finally {
      await server.end("SIGTERM");
    }
  },
};
