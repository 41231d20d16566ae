// Ingest in process: the whole path (measure, charge, parse, validate, check ids, add up, store durably) compared with
// JSON.parse of the same bytes, interleaved in one run. The journal is added to the rollups between the measurements,
// as a row of its own: the batches of one instance would otherwise be measured beside the journal of another.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startInstance } from "../src/server/start.ts";
import { loadSettings } from "../src/config/load.ts";
import type { SecretKeyActor } from "../src/domain/core/actor.ts";
import type { Ctx } from "../src/domain/core/context.ts";
import type { RawBody } from "../src/domain/ingest/raw-body.ts";
import { foldJournal } from "../src/domain/series/fold.ts";
import { ingest as ingestBatch } from "../src/domain/ingest/ingest.ts";
import { createKey } from "../src/domain/keys/keys.ts";
import { createProject } from "../src/domain/workspaces/projects.ts";
import { createTenant } from "../src/domain/workspaces/tenants.ts";
import { vendorOf } from "../harness/instances/services.ts";
import { JsonStructure } from "../src/http/body/structure.ts";
import { createLog } from "../src/platform/log.ts";
import { median, type Row } from "./report.ts";

const EVENTS = 1_000;
const BATCHES = 40;
const ROUNDS = 15;
const KEYS = 100;
const MANY_KEYS = 1_000;
const IN_FLIGHT = 8;

type EventOrigin = { project_id: string; tenant_id: string; key_id: string; display_prefix: string };

async function createOrigins(ctx: Ctx<SecretKeyActor>, keys: number): Promise<EventOrigin[]> {
  const project = await createProject(ctx, { name: "Bench", slug: "bench" });
  const tenants = await Promise.all(
    Array.from({ length: keys / 5 }, (_, i) => createTenant(ctx, { external_id: `tenant-${i}` })),
  );
  return Promise.all(
    Array.from({ length: keys }, async (_, i) => {
      const tenant_id = tenants[i % tenants.length]?.id ?? "";
      const { id, display_prefix } = await createKey(ctx, { project_id: project.id, tenant_id, env: "live" });
      return { project_id: project.id, tenant_id, key_id: id, display_prefix };
    }),
  );
}

/** Every batch has its own request ids, so none is recognised as a repetition. */
function batchBytes(all: EventOrigin[], round: number, batch: number): Buffer {
  const now = Date.now();
  const events = Array.from({ length: EVENTS }, (_, i) => ({
    ts: new Date(now - EVENTS + i).toISOString(),
    ...all[(i * 7919 + batch) % all.length],
    env: "live",
    method: "POST",
    path: `/v1/orders/${i}/items`,
    route: "/v1/orders/:id/items",
    status: i % 50 === 0 ? 500 : 200,
    duration_ms: 12.25 + (i % 10),
    degraded: false,
    denial_reason: null,
    request_id: `0190d3c4-${round}-${batch}-${String(i).padStart(12, "0")}`,
  }));
  const sdk = { name: "@keyrack/node", version: "1.0.0" };
  return Buffer.from(JSON.stringify({ object: "ingest_batch", protocol_version: 1, node_id: "bench-1", sdk, events }));
}

/** More than a batch takes. */
const WHOLE_MS = 1_000;

/** As the HTTP layer measures a body while it arrives. */
export function measured(bytes: Buffer): RawBody {
  const structure = new JsonStructure({ structure: 300_000, inPieces: true });
  if (!structure.add(bytes)) throw new Error("the batch is too complex");
  const { cuts } = structure;
  return { bytes, pieces: cuts && { cuts, runPiece: async (work) => work(WHOLE_MS) } };
}

async function timed(batches: Buffer[], work: (bytes: Buffer) => unknown, inFlight: number): Promise<number> {
  const start = performance.now();
  let next = 0;
  const lane = async (): Promise<void> => {
    for (;;) {
      const bytes = batches[next++];
      if (!bytes) return;
      await work(bytes);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, lane));
  return ((performance.now() - start) * 1000) / (batches.length * EVENTS);
}

/** Microseconds per event. */
type Times = { ours: number; parse: number; fold: number };
type Bench = AsyncDisposable & { run: (round: number) => Promise<Times> };

/** An instance of its own, and a workspace whose events are spread over `keys`. */
async function prepare(keys: number, series: "on" | "off"): Promise<Bench> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-bench-"));
  const flags = { data_dir: dir, port: "0", throttle: "off", ingest_events_per_minute: "1000000000", series };
  const { settings } = loadSettings({ env: {}, flags });
  const app = await startInstance({ settings, log: createLog({ level: "error", write: () => {} }) });
  const ctx = await vendorOf(app.services, "live", "bench");
  const all = await createOrigins(ctx, keys);
  return {
    run: async (round) => {
      const batches = Array.from({ length: BATCHES }, (_, i) => batchBytes(all, round, i));
      const parse = await timed(batches, (bytes) => JSON.parse(bytes.toString("utf8")), 1);
      const ours = await timed(batches, (bytes) => ingestBatch(ctx, async () => measured(bytes)), IN_FLIGHT);
      const start = performance.now();
      await foldJournal(app.services);
      const fold = ((performance.now() - start) * 1000) / (BATCHES * EVENTS);
      return { ours, parse, fold };
    },
    async [Symbol.asyncDispose]() {
      await app.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** Microseconds per event of each, interleaved, and events per second. */
export async function ingest(): Promise<Row[]> {
  await using few = await prepare(KEYS, "on");
  await using many = await prepare(MANY_KEYS, "on");
  await using off = await prepare(MANY_KEYS, "off");
  const seen: Record<"few" | "parse" | "fold" | "many" | "off", number[]> = {
    few: [],
    parse: [],
    fold: [],
    many: [],
    off: [],
  };
  for (let round = 0; round < ROUNDS; round++) {
    const one = await few.run(round);
    seen.few.push(one.ours);
    seen.parse.push(one.parse);
    seen.fold.push(one.fold);
    seen.many.push((await many.run(round)).ours);
    seen.off.push((await off.run(round)).ours);
  }
  const of = (name: keyof typeof seen): number => median(seen[name].slice(2));
  const [our, peer, fold, withSeries, without] = [of("few"), of("parse"), of("fold"), of("many"), of("off")];
  return [
    { name: "ingest/batch", ours: our, peer, ratio: our / peer, target: "<= 2.2" },
    { name: "ingest/fold", ours: fold, peer, ratio: fold / peer, target: "" },
    { name: "ingest/series", ours: withSeries, peer: without, ratio: withSeries / without, target: "<= 1.45" },
    { name: "ingest/events", ours: 1e6 / our, peer: 200_000, ratio: 1e6 / our / 200_000, target: ">= 1.0" },
  ];
}
