// Quotas under load while processes are killed or stopped: nothing that was admitted is forgotten, so none is overspent, no
// grant is lost or counted twice, and a crash costs at most two blocks. On PostgreSQL two processes share the balances.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { rawSql } from "../harness/databases/raw-sql.ts";
import type { Scratch } from "../harness/databases/scratch.ts";
import { must, type World } from "../harness/instances/world.ts";
import { startServer, type Running } from "../harness/processes/server.ts";
import { seeded } from "../harness/random.ts";
import { blockSize } from "../src/kernel/quotas/allocation.ts";
import { rounds, type Campaign, type Tally } from "./campaign.ts";
import { callOf, ENV, worldOn } from "./crash.ts";
import { QuotaClient, QuotaLog, type Target } from "./quota-load.ts";

const CLIENTS = 8;
const CALLS = 25;
/** Of one check. */
const COST_MAX = 1_000;
const KILL_AFTER_MAX_MS = 300;
/** Every third round has no kill: then nothing at all may be lost. */
const CLEAN_EVERY = 3;
const BLOCKS_LOST_MAX = 2;

type Starts = readonly (() => Promise<Running>)[];
type Judged = { name: string; subject_id: string; amount: number; granted: number };
type Found = { taken: number; grants: number; units: number; left: number };

/** One process, or two on PostgreSQL, each with a data directory of its own and the same master key. */
function startsOf({ dir, target, args }: Scratch): Starts {
  if (target.kind !== "postgres") return [() => startServer(args, ENV)];
  const masterKey = join(dir, "a", "master.key");
  return ["a", "b"].map((name) => {
    const data = join(dir, name);
    mkdirSync(data, { mode: 0o700 });
    const env = { ...ENV, KEYRACK_PUBLIC_URL: "https://keys.example.com", KEYRACK_BACKUP_EVERY: "off" };
    const own = name === "a" ? {} : { KEYRACK_MASTER_KEY_FILE: masterKey };
    return () => startServer(["--data-dir", data, "--database-url", target.url], { ...env, ...own });
  });
}

async function stopAll(servers: readonly Running[]): Promise<void> {
  await Promise.all(servers.map((server) => server.end("SIGTERM")));
}

/** A tenant with a quota that is granted to, and a key with one of its own; each request is charged to both. */
async function makeTarget({ call, key, project_id }: World, seed: number, amounts: { shared: number; own: number }) {
  const quota = (id: "shared" | "own", refill: string) => ({ id, amount: amounts[id], refill });
  const tenant = { external_id: `t${seed}`, quotas: [quota("shared", "monthly")] };
  const { id: tenant_id } = await must(call(key, "POST /v1/tenants", tenant));
  const body = { project_id, tenant_id, env: "live", quotas: [quota("own", "none")] };
  const { id: key_id } = await must(call(key, "POST /v1/keys", body));
  return { project_id, tenant_id, key_id };
}

/** While no process runs, all that was taken is spent. */
async function readStored({ target }: Scratch, { name, subject_id }: Judged): Promise<Found> {
  const of = (sql: string) => rawSql(target, `${sql} where subject_id = $1 and quota_id = $2`, [subject_id, name]);
  const [balance] = await of("select taken from quota_balances");
  const [grants] = await of(
    "select count(*) as n, coalesce(sum(units), 0) as units, coalesce(sum(remaining), 0) as remaining from quota_grants",
  );
  const { n, units, remaining } = grants!;
  return { taken: Number(balance?.taken ?? 0), grants: Number(n), units: Number(units), left: Number(remaining) };
}

class Round {
  readonly #servers: Running[];
  readonly #starts: Starts;
  readonly #world: World;
  readonly #scratch: Scratch;
  readonly #seed: number;
  readonly #tally: Tally;

  constructor(servers: Running[], starts: Starts, world: World, scratch: Scratch, seed: number, tally: Tally) {
    this.#servers = servers;
    this.#starts = starts;
    this.#world = world;
    this.#scratch = scratch;
    this.#seed = seed;
    this.#tally = tally;
  }

  async run(): Promise<void> {
    const random = seeded(this.#seed);
    const amounts = { shared: random.int(200, 600), own: random.int(300, 900) };
    const target = await makeTarget(this.#world, this.#seed, amounts);
    const month = new Date().getUTCMonth();
    const log = new QuotaLog();
    const clients = Array.from({ length: CLIENTS }, (_, i) => {
      const own = seeded(this.#seed * 1_000 + i);
      return new QuotaClient(this.#servers, this.#world.key, target, own, log).run(`r${this.#seed}-${i}`, CALLS);
    });
    const load = Promise.all(clients);
    load.catch(() => {}); // it may fail before it is awaited
    const kills = this.#seed % CLEAN_EVERY === 0 ? 0 : 1;
    if (kills > 0) await this.#kill(random.int(0, KILL_AFTER_MAX_MS), random.int(0, this.#servers.length - 1));
    await load;
    await stopAll(this.#servers);
    const { granted } = log;
    const shared = { name: "shared", subject_id: target.tenant_id, amount: amounts.shared, granted };
    const own = { name: "own", subject_id: target.key_id, amount: amounts.own, granted: 0 };
    const left: number[] = [];
    for (const judged of [shared, own]) left.push(await this.#judge(judged, log, kills));
    const started = await Promise.all(this.#starts.map((start) => start()));
    for (const [i, server] of started.entries()) this.#servers[i] = server;
    // At the turn of a month the shared quota is refilled, and its figures are those of two periods.
    if (new Date().getUTCMonth() === month) await this.#drain(target, Math.min(...left));
    this.#tally.count("admitted", log.admitted);
    this.#tally.count("grants", log.grants.size);
    this.#tally.count("kills", kills);
  }

  async #kill(afterMs: number, which: number): Promise<void> {
    await sleep(afterMs);
    await this.#servers[which]!.end("SIGKILL");
    this.#servers[which] = await this.#starts[which]!();
  }

  /** Returns what is left of the quota. */
  async #judge(judged: Judged, log: QuotaLog, kills: number): Promise<number> {
    const { name, amount, granted } = judged;
    const failed = (what: string): void => this.#tally.failed(this.#seed, `quota ${name}: ${what}`);
    const found = await readStored(this.#scratch, judged);
    const { taken, units, grants } = found;
    const most = amount + granted;
    if (log.admitted > most) failed(`${log.admitted} units admitted of ${most}`);
    if (taken > most) failed(`${taken} units spent of ${most}`);
    if (units !== granted) failed(`${units} units of grants, ${granted} acknowledged`);
    if (granted > 0 && grants !== log.grants.size) failed(`${grants} grants, ${log.grants.size} acknowledged`);
    if (taken < log.charged - log.uncertain) failed(`${taken} units counted of ${log.charged} charged`);
    const lost = taken - log.charged;
    const allowed = kills * BLOCKS_LOST_MAX * blockSize(most);
    if (lost > log.uncertain + allowed) failed(`${lost} units lost, ${log.uncertain} uncertain, ${allowed} in blocks`);
    if (kills > 0) this.#tally.most("units lost by a kill, at most", lost);
    return most - taken;
  }

  /** What the database says is left can be spent, and no unit more. */
  async #drain(target: Target, left: number): Promise<void> {
    const { call, key } = this.#world;
    const check = async (cost: number): Promise<boolean> => {
      const body = { ...target, env: "live", limits: [], quotas: true, cost };
      return (await must(call(key, "POST /v1/ratelimit/check", body))).allowed;
    };
    for (let rest = left; rest > 0; rest -= COST_MAX) {
      const cost = Math.min(rest, COST_MAX);
      if (!(await check(cost))) return this.#tally.failed(this.#seed, `${cost} of the last ${left} units were refused`);
    }
    if (await check(1)) this.#tally.failed(this.#seed, "a unit beyond the last one was admitted");
  }
}

export const quotasCampaign: Campaign = {
  name: "quotas",
  promise: "P10",
  claim:
    "no quota is overspent and no grant lost, whatever is killed; a crash costs at most two blocks, a stop nothing.",
  rounds: 200,
  round: "kill or stop under load",
  backends: ["sqlite", "postgres"],
  async run(options, tally) {
    const starts = startsOf(options.scratch);
    const servers: Running[] = [];
    try {
      for (const start of starts) servers.push(await start());
      const first = await worldOn(servers[0]!, "quotas");
      const world = { ...first, call: callOf(() => servers[0]!) };
      for (const seed of rounds(options, tally))
        await new Round(servers, starts, world, options.scratch, seed, tally).run();
    } finally {
      await stopAll(servers);
    }
  },
};
