// Attackers beside victims on one server: a stranger with a workspace of its own, and the first victim's own test key.
// Whatever they do, every answer to the victims is the one that an exact model expects, and nothing takes effect after
// its credential ended.
import { readFileSync } from "node:fs";
import { constants, setPriority } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { findRedis } from "../harness/databases/redis.ts";
import { openRaw } from "../harness/databases/raw-sql.ts";
import { readMailbox } from "../harness/instances/mailbox.ts";
import { must, type World } from "../harness/instances/world.ts";
import { actsAfterEnd, type ChainRow } from "../harness/models/ended-credentials.ts";
import { BIN, CHECKOUT, startServer, type Running } from "../harness/processes/server.ts";
import { MALLOC_ENV } from "../harness/release/malloc.ts";
import { seeded, type Random } from "../harness/random.ts";
import { bundledProgram } from "../harness/setup/program.ts";
import { until } from "../harness/waiting.ts";
import { rounds, type Campaign, type RunOptions, type Tally } from "./campaign.ts";
import { callOf, worldOn } from "./crash.ts";
import type { Attack, Stage } from "./neighbours/attack.ts";
import { attacks } from "./neighbours/index.ts";
import { CONNECTIONS_ENV } from "./neighbours/connections.ts";
import { keepsGrowing, levelOff, readLevels, rssMb } from "./neighbours/levels.ts";
import { countDelays, METRICS_ENV, metricsUrlOf } from "./neighbours/loop-delay.ts";
import { HoldFile, type Hold } from "./neighbours/loop-watch.ts";
import type { Answers, Victim } from "./neighbours/victim.ts";
import { makeVictimPerson } from "./neighbours/victim-logins.ts";
import { VictimProcess } from "./neighbours/victim-process.ts";

const QUIET_MS = 2_000;
/** Below these a longer time is the machine's. */
const P99_MS = 10;
const RSS_MAX_MB = 512;
const STOP_MAX_MS = 10_000;

type NeighboursOptions = {
  /** Attacks of one round, drawn by its seed; several run at the same time. */
  perRound: number;
  /** Drawn from these; from all if not given. */
  from?: readonly Attack[];
  atOnce: number;
  quietMs: number;
  strength: number;
  /** Between the requests of a victim: more of them find nothing that fewer would not, and take as much CPU time. */
  pauseMs: number;
  /** Whether times and memory count as failures: not on a busy machine. */
  measured: boolean;
};

const p99 = (times: number[]): number => times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.99)] ?? 0;

/** The largest resident size so far, in MB. */
function peakRssMb(pid: number): number {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;
  } catch {
    return 0; // only Linux has it
  }
}

async function checkChains({ scratch, seed }: Pick<RunOptions, "scratch" | "seed">, tally: Tally): Promise<void> {
  const raw = await openRaw(scratch.target);
  try {
    const rows = await raw.all("select * from audit_log order by workspace_id, seq");
    const chains = Map.groupBy(rows, ({ workspace_id }) => workspace_id);
    for (const chain of chains.values()) {
      const parsed = chain.map((row) => ({ ...row, payload: JSON.parse(String(row.payload)) as unknown }));
      for (const what of actsAfterEnd(parsed as unknown as ChainRow[])) tally.failed(seed, what);
    }
    tally.figures["audit rows"] = rows.length;
  } finally {
    await raw.close();
  }
}

function shuffled<T>(items: readonly T[], { next }: Random): T[] {
  return items
    .map((item) => ({ item, at: next() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

/** Runs the round's attacks, some at a time, in the order that the seed gives. */
async function attack(
  stage: Stage,
  { perRound, atOnce, from = attacks }: NeighboursOptions,
  tally: Tally,
): Promise<void> {
  const order: Attack[] = [];
  while (order.length < perRound) order.push(...shuffled(from, stage.random));
  order.length = perRound;
  const attacker = async (): Promise<void> => {
    for (let next = order.pop(); next && !stage.stop.aborted; next = order.pop()) {
      await next.run(stage).catch((error: Error) => stage.broken(`${next?.name} failed: ${error.message}`));
      tally.count("attacks");
    }
  };
  await Promise.all(Array.from({ length: atOnce }, attacker));
}

/** Every invitation of a victim arrives, however many letters others send. */
async function checkMail(dir: string, invited: readonly string[], tally: Tally, seed: number): Promise<void> {
  const missing = new Set(invited);
  const look = (): boolean => {
    for (const { to } of readMailbox(join(dir, "mail"))) missing.delete(to);
    return missing.size === 0;
  };
  await until(look).catch(() => tally.failed(seed, `no letter came to ${[...missing].join()}`));
  tally.count("letters to victims' guests", invited.length);
}

/** A delay may be the machine's, where attackers, victims and server share its cores; a hold is the server's. */
function judgeHolds(tally: Tally, seed: number, delays: number, holds: Hold[]): void {
  tally.count("event loop delayed over 50 ms", delays);
  tally.count("event loop held over 50 ms", holds.length);
  for (const { ms, cpuMs, stack } of holds)
    tally.failed(seed, `the event loop was held for ${ms} ms or more, ${cpuMs} of them with a core, by ${stack}`);
}

function judge(tally: Tally, seed: number, quiet: Answers, beside: Answers, measured: boolean): void {
  for (const what of [...quiet.wrong, ...beside.wrong]) tally.failed(seed, `a victim got a wrong answer: ${what}`);
  tally.count("wrong answers", quiet.wrong.length + beside.wrong.length);
  if (!measured) tally.count("late answers", quiet.late + beside.late);
  for (const kind of ["requests", "revocations", "logins"] as const) {
    tally.count(`${kind} of victims`, quiet.times[kind].length + beside.times[kind].length);
    const [before, during] = [p99(quiet.times[kind]), p99(beside.times[kind])];
    tally.most(`${kind}: quiet p99 ms`, before);
    tally.most(`${kind}: p99 beside attacks ms`, during);
    if (measured && during > Math.max(3 * before, P99_MS))
      tally.failed(seed, `the p99 of the victims' ${kind} rose from ${before} to ${during} ms`);
  }
}

/** What the rounds share. */
type Rig = { server: Running; metricsUrl: string; victims: VictimProcess; holds: HoldFile; dir: string };

/** Victims alone, then beside attackers. */
async function runRound(rig: Rig, options: NeighboursOptions, tally: Tally, seed: number): Promise<void> {
  const { server, metricsUrl, victims, holds, dir } = rig;
  const { quietMs, strength, pauseMs, measured } = options;
  const { url, pid } = server.ready;
  const call = callOf(() => server);
  const random = seeded(seed);
  let made = 0;
  const fresh = (): string => `n${seed}-${++made}`;
  const victim = { ...(await worldOn(server, `victim-${seed}`)), call };
  const attacker = { ...(await worldOn(server, `attacker-${seed}`)), call };
  const second = { ...(await worldOn(server, `second-${seed}`)), call };
  const testKeyOf = async ({ key }: World): Promise<string> =>
    (await must(call(key, "POST /v1/secret_keys", { env: "test" }))).key as string;
  const victimTestKey = await testKeyOf(victim);
  const all: Victim[] = [
    { ...victim, env: "live" },
    { ...second, env: "live" },
    { ...second, env: "test", key: await testKeyOf(second) },
  ];
  const person = await makeVictimPerson(call, dir, seed);
  const broken = (what: string): void => tally.failed(seed, what);
  const stopQuiet = victims.start({ url, victims: all, person, seed, pauseMs, measured });
  await sleep(quietMs);
  const quiet = await stopQuiet();
  const delayedQuiet = await countDelays(metricsUrl);
  const levels = await readLevels(pid, metricsUrl);
  const end = new AbortController();
  const stopBeside = victims.start({ url, victims: all, person, seed: seed + 1, pauseMs, measured });
  const stage: Stage = {
    url,
    attacker,
    victim,
    victimTestKey,
    random,
    strength,
    stop: end.signal,
    fresh,
    broken,
  };
  await attack(stage, options, tally);
  end.abort();
  const beside = await stopBeside();
  judge(tally, seed, quiet, beside, measured);
  const delays = (await countDelays(metricsUrl)) - delayedQuiet;
  if (measured) judgeHolds(tally, seed, delays, holds.read());
  await checkMail(dir, [...quiet.invited, ...beside.invited], tally, seed);
  tally.most("largest RSS MB", peakRssMb(pid));
  const left = await levelOff(pid, metricsUrl, levels);
  if (left) tally.failed(seed, `after the attacks the server still holds ${left}`);
}

export function neighboursCampaign(options: NeighboursOptions): Campaign {
  return {
    name: "neighbours",
    promise: "P8, P9",
    claim:
      "What one owner does changes no answer that another gets, and nothing takes effect after its credential ended.",
    rounds: 200,
    round: `${options.perRound} attacks`,
    backends: ["sqlite", "postgres", "redis"],
    async run(run, tally) {
      const { scratch, backend } = run;
      const redis = backend === "redis" ? await findRedis() : undefined;
      if (redis === null) {
        tally.skipped = "no Redis was found or could be started";
        return;
      }
      const args = redis ? [...scratch.args, "--redis-url", redis.url] : scratch.args;
      // Throttles stay on: they are part of what is under test.
      const env = {
        KEYRACK_INGEST_EVENTS_PER_MINUTE: "100000000",
        ...METRICS_ENV,
        ...CONNECTIONS_ENV,
        ...MALLOC_ENV,
      };
      const holds = new HoldFile(join(scratch.dir, "holds.jsonl"));
      // The files of a checkout take 150 MB more than the program that people run.
      const bin = BIN === CHECKOUT ? await bundledProgram() : BIN;
      tally.figures.program = process.env.KEYRACK_TEST_BIN ? "binary" : "bundle";
      const server: Running = await startServer(args, { ...env, ...(options.measured && holds.env) }, bin);
      const metricsUrl = metricsUrlOf(server);
      holds.read(); // of its start
      const victims = new VictimProcess();
      setPriority(constants.priority.PRIORITY_LOW); // real attackers have machines of their own
      const sizes: number[] = [];
      const rig = { server, metricsUrl, victims, holds, dir: scratch.dir };
      try {
        for (const seed of rounds(run, tally)) {
          await runRound(rig, options, tally, seed);
          sizes.push(rssMb(server.ready.pid));
        }
        await checkChains(run, tally);
        if (options.measured && keepsGrowing(sizes))
          tally.failed(run.seed, `the server's memory grew round by round: ${sizes.map(Math.round).join()} MB`);
        if (options.measured && Number(tally.figures["largest RSS MB"]) > RSS_MAX_MB)
          tally.failed(run.seed, `the server used ${tally.figures["largest RSS MB"]} MB`);
      } finally {
        victims.end();
        setPriority(constants.priority.PRIORITY_NORMAL);
        const started = performance.now();
        await server.end("SIGTERM");
        const stopMs = performance.now() - started;
        await redis?.stop();
        tally.most("slowest stop ms", stopMs);
        if (options.measured && stopMs > STOP_MAX_MS) tally.failed(run.seed, `SIGTERM took ${Math.round(stopMs)} ms`);
      }
    },
  };
}

export const neighbours = neighboursCampaign({
  perRound: 12,
  atOnce: 3,
  quietMs: QUIET_MS,
  strength: 1,
  pauseMs: 0,
  measured: true,
});
