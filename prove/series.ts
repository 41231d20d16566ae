// kill -9 while telemetry arrives and is added to the usage series: every projection equals the receipts and the daily figures.
import { setTimeout as sleep } from "node:timers/promises";
import { must, type World } from "../harness/instances/world.ts";
import { startServer, type Running } from "../harness/processes/server.ts";
import { seeded } from "../harness/random.ts";
import { telemetryBatch, telemetryEvent } from "../harness/telemetry.ts";
import { until } from "../harness/waiting.ts";
import { rounds, type Campaign, type Tally } from "./campaign.ts";
import { callOf, ENV, worldOn } from "./crash.ts";

const KEYS = 5;
const BATCHES = 20;
const EVENTS = 40;
const GROUPINGS = ["key", "tenant", "project", "route", "outcome", "env", "tag:region"];

type Sender = { world: World; keys: string[]; start: number };

/** The same seed and number make the same batch, so that it can be sent again after a crash. */
function batchOf({ world, keys, start }: Sender, seed: number, number: number): object {
  const random = seeded(seed * 1_000 + number);
  const events = Array.from({ length: EVENTS }, (_, i) =>
    telemetryEvent({
      ts: new Date(start - random.int(0, 3 * 3_600_000)).toISOString(),
      project_id: world.project_id,
      tenant_id: world.tenant_id,
      key_id: keys[random.int(0, keys.length - 1)],
      route: `/route/${random.int(0, 9)}`,
      duration_ms: random.int(1, 500),
      ...(random.int(0, 4) === 0 && { denial_reason: "rate_limited", status: 429 }),
      tags: { region: ["eu", "us"][random.int(0, 1)] },
      request_id: `s${seed}-${number}-${i}`,
    }),
  );
  return telemetryBatch(events);
}

/** Sends until it is accepted: after a kill the same batch again. Returns the number of accepted events. */
async function deliver(sender: Sender, seed: number, number: number): Promise<number> {
  const body = batchOf(sender, seed, number);
  for (;;) {
    const reply = await sender.world.call(sender.world.key, "POST /v1/ingest/batch", body).catch(() => null);
    if (reply?.status === 202) return reply.body.accepted as number;
    await sleep(20);
  }
}

async function check({ world, keys }: Sender, accepted: number, seed: number, tally: Tally): Promise<void> {
  const { call, key } = world;
  const series = (query: string) => must(call(key, `GET /v1/usage/series?bucket=day&${query}`));
  const receivedAt = Date.now();
  await until(async () => Date.parse((await series("")).as_of) >= receivedAt);
  for (const grouping of GROUPINGS) {
    const { series: lines, total } = await series(`group_by=${grouping}`);
    const listed = lines.reduce((sum: number, line: { total: { requests: number } }) => sum + line.total.requests, 0);
    for (const found of [listed, total.total.requests])
      if (found !== accepted) tally.failed(seed, `by ${grouping}: ${found} of ${accepted} events`);
  }
  for (const id of keys) {
    const { data } = await must(call(key, `GET /v1/keys/${id}/usage`));
    const days = data.map(({ requests }: { requests: number }) => requests).slice(-2);
    const own = (await series(`key_id=${id}`)).total.requests.slice(-2);
    if (String(days) !== String(own)) tally.failed(seed, `key ${id}: ${own} instead of ${days} by day`);
  }
  tally.figures.events = accepted;
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
      const { project_id, tenant_id } = world;
      const mint = () => must(world.call(world.key, "POST /v1/keys", { project_id, tenant_id, env: "live" }));
      const keys = (await Promise.all(Array.from({ length: KEYS }, mint))).map(({ id }) => id as string);
      const sender: Sender = { world, keys, start: Date.now() };
      let accepted = 0;
      for (const seed of rounds(options, tally)) {
        const sent = Array.from({ length: BATCHES }, (_, number) => deliver(sender, seed, number));
        await Promise.race(sent);
        await sleep(seeded(seed).int(0, 2_500));
        await server.end("SIGKILL");
        server = await startServer(scratch.args, ENV);
        for (const count of await Promise.all(sent)) accepted += count;
        await check(sender, accepted, seed, tally);
        tally.count("batches", BATCHES);
      }
    } finally {
      await server.end("SIGTERM");
    }
  },
};
