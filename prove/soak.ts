// A long run at half the capacity, with disturbances: clients that hang up, malformed requests, chain verifications.
// Memory, open handles and the -wal must level off, and the ledger must match at the end.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { Campaign, Tally } from "./campaign.ts";
import { auditServer, callOf, ENV, worldOn } from "./crash.ts";
import { Ledger, runLoad } from "./load.ts";
import { seeded, type Random } from "../harness/random.ts";
import type { Call } from "../harness/processes/send.ts";
import { startServer } from "../harness/processes/server.ts";

const CLIENTS = 16;
/** How long the clients run unpaced to measure the capacity; less in a short run. */
const CALIBRATION_MS = 20_000;
/** A verification reads the whole chain: the pause is ten times its duration, or it would be most of the load. */
const VERIFY_REST = 10;
const SAMPLE_MS = 2_000;
/** The fraction of the run that is warm-up: compilation, caches, heap size. */
const WARM = 0.4;
const RSS_GROWTH_MAX = 0.05;
const HANDLES_MAX = 5;
const WAL_MAX_BYTES = 64 * 1024 * 1024;

type Sample = { at: number; rss: number; handles: number };

function sample(pid: number, started: number): Sample {
  const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) * 1024;
  // Connections depend on the clients; only files must not accumulate.
  const handles = readdirSync(`/proc/${pid}/fd`).length;
  return { at: performance.now() - started, rss, handles };
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** A client that sends half a request and hangs up, or a malformed one. */
function trouble(url: string, random: Random): Promise<void> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write(
        random.pick(["POST /v1/keys HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{", "\u0000\u0001\r\n\r\n"]),
      );
      setTimeout(() => socket.destroy(), random.int(0, 50));
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve());
  });
}

function judge(samples: readonly Sample[], seed: number, tally: Tally): void {
  const end = samples.at(-1)?.at ?? 0;
  const settled = samples.filter(({ at }) => at >= end * WARM);
  const half = Math.floor(settled.length / 2);
  const [first, second] = [settled.slice(0, half), settled.slice(half)];
  const growth = mean(second.map(({ rss }) => rss)) / mean(first.map(({ rss }) => rss)) - 1;
  const more = mean(second.map(({ handles }) => handles)) - mean(first.map(({ handles }) => handles));
  tally.figures["RSS MiB"] = Math.round(mean(second.map(({ rss }) => rss)) / 1024 / 1024);
  tally.figures["RSS growth %"] = Math.round(growth * 1_000) / 10;
  tally.figures["change in open handles"] = Math.round(more * 10) / 10;
  if (!(growth < RSS_GROWTH_MAX)) tally.failed(seed, `memory grew by ${Math.round(growth * 1_000) / 10} %`);
  if (!(Math.abs(more) <= HANDLES_MAX)) tally.failed(seed, `handles changed by ${more}`);
}

async function disturb(
  url: string,
  call: Call,
  key: string,
  random: Random,
  stop: AbortSignal,
  tally: Tally,
): Promise<void> {
  let verifyAt = 0;
  while (!stop.aborted) {
    await trouble(url, random);
    tally.count("hang-ups");
    if (performance.now() >= verifyAt) {
      const started = performance.now();
      const { status, body } = await call(key, "GET /v1/audit_logs/chain");
      // A refusal under load says nothing about the chain; it is verified again, and once more at the end.
      if (status === 503) tally.count("verifications refused");
      else if (body.verified === true) tally.count("verifications");
      else tally.failed(0, `the chain breaks at ${body.broken_seq}`);
      verifyAt = performance.now() + VERIFY_REST * (performance.now() - started) + 2_000;
    }
    await sleep(200);
  }
}

export const soak: Campaign = {
  name: "soak",
  promise: "P1, P3",
  claim: "Under hours of disturbed load memory, handles and the -wal level off, and nothing acknowledged is lost.",
  rounds: 1,
  round: "run of --minutes",
  backends: ["sqlite", "postgres"],
  async run(options, tally) {
    const { scratch, seed, minutes, print } = options;
    const server = await startServer(scratch.args, ENV);
    const { url, pid } = server.ready;
    const call = callOf(() => server);
    const ledger = new Ledger();
    const stop = new AbortController();
    try {
      const world = await worldOn(server, "soak");
      let interval = 0;
      const load = runLoad(
        { call, world, ledger, seed, clients: CLIENTS, paceMs: () => interval, patient: true },
        stop.signal,
      );
      const calibrationMs = Math.min(CALIBRATION_MS, minutes * 6_000);
      await sleep(calibrationMs);
      const capacity = ledger.operations / (calibrationMs / 1_000);
      interval = CLIENTS / (capacity / 2 / 1_000);
      tally.figures["capacity, operations/s"] = Math.round(capacity);
      const calibrated = ledger.operations;
      const trouble = disturb(url, call, world.key, seeded(seed), stop.signal, tally);
      const samples: Sample[] = [];
      const started = performance.now();
      while (performance.now() - started < minutes * 60_000) {
        await sleep(SAMPLE_MS);
        samples.push(sample(pid, started));
        const wal = statSync(`${scratch.dir}/keyrack.db-wal`, { throwIfNoEntry: false })?.size ?? 0;
        tally.most("largest -wal MiB", wal / 1024 / 1024);
        if (wal > WAL_MAX_BYTES) tally.failed(seed, `the -wal is ${wal} bytes`);
        if (samples.length % 30 === 0)
          print(`${samples.length * 2} s: RSS ${Math.round((samples.at(-1)?.rss ?? 0) / 2 ** 20)} MiB`);
      }
      stop.abort();
      await Promise.all([load, trouble]);
      tally.rounds = 1;
      tally.figures.minutes = minutes;
      tally.figures["operations/s"] = Math.round((ledger.operations - calibrated) / (minutes * 60));
      judge(samples, seed, tally);
      await auditServer(call, world, ledger, { scratch, seed }, tally);
    } finally {
      stop.abort();
      const code = await server.end("SIGTERM");
      if (code !== 0) tally.failed(seed, `it ended with ${code}`);
    }
  },
};
