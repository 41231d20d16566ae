// Quotas under load while a process is killed or stopped, Redis loses everything, or a backup is restored: nothing that
// was admitted is forgotten, so none is overspent, no grant is lost or counted twice, and a crash costs at most two
// blocks.
import { setTimeout as sleep } from "node:timers/promises";
import { rawSql } from "../harness/databases/raw-sql.ts";
import { must, type World } from "../harness/instances/world.ts";
import { seeded, type Random } from "../harness/random.ts";
import { until } from "../harness/waiting.ts";
import { blockSize } from "../src/kernel/quotas/allocation.ts";
import { rounds, type Campaign, type Tally } from "./campaign.ts";
import { callOf, worldOn } from "./crash.ts";
import { QuotaDeployment } from "./quota-deployment.ts";
import { QuotaClient, QuotaLog, type Target } from "./quota-load.ts";
import { QuotaNode } from "./quota-nodes.ts";

const NODES = 3;
const CLIENTS = 8;
const CALLS = 25;
/** Of a rush: callers that use up one quota, one unit at a time. */
const RUSH_CLIENTS = 40;
/** More than they can use up. */
const RUSH_OWN = 5_000;
/** More than is spent before the backup. */
const RESTORE_AMOUNTS = { shared: 5_000, own: 6_000 };
/** Of one check. */
const COST_MAX = 1_000;
const FAULT_AFTER_MAX_MS = 300;
const BLOCKS_LOST_MAX = 2;
/** One a round, in turn. At a stop nothing at all may be lost. */
const FAULTS = ["stop", "kill", "redis", "restore"] as const;

type Plan = { fault: (typeof FAULTS)[number]; isRush: boolean };
type Judged = { name: string; subject_id: string; amount: number; granted: number };
type Found = { taken: number; grants: number; units: number };

/**
 * After every fault with one kind of load, every fault with the other. A restore is compared with what came after a
 * backup.
 */
function planOf(seed: number, hasRedis: boolean): Plan {
  const fault = FAULTS[seed % FAULTS.length]!;
  const isRush = fault !== "restore" && Math.floor(seed / FAULTS.length) % 2 === 1;
  return { fault: fault === "redis" && !hasRedis ? "stop" : fault, isRush };
}

/** A tenant with a quota that is granted to, and a key with one of its own; each request is charged to both. */
async function makeTarget({ call, key, project_id }: World, seed: number, amounts: { shared: number; own: number }) {
  const quota = (id: "shared" | "own", refill: string) => ({ id, amount: amounts[id], refill });
  const tenant = { external_id: `t${seed}`, quotas: [quota("shared", "monthly")] };
  const { id: tenant_id } = await must(call(key, "POST /v1/tenants", tenant));
  const body = { project_id, tenant_id, env: "live", quotas: [quota("own", "none")] };
  const made = await must(call(key, "POST /v1/keys", body));
  return { target: { project_id, tenant_id, key_id: made.id as string }, key: made.key as string };
}

class Round {
  readonly #deployment: QuotaDeployment;
  readonly #world: World;
  readonly #seed: number;
  readonly #tally: Tally;
  readonly #plan: Plan;
  readonly #rushUnits: number;
  readonly #random: Random;
  readonly #log = new QuotaLog();

  constructor(deployment: QuotaDeployment, world: World, seed: number, tally: Tally, rushUnits: number) {
    this.#deployment = deployment;
    this.#world = world;
    this.#seed = seed;
    this.#tally = tally;
    this.#plan = planOf(seed, deployment.hasRedis);
    this.#rushUnits = rushUnits;
    this.#random = seeded(seed);
  }

  async run(): Promise<void> {
    const { fault, isRush } = this.#plan;
    await this.#deployment.use(fault === "redis");
    const some = { shared: this.#random.int(200, 600), own: this.#random.int(300, 900) };
    const rush = { shared: this.#rushUnits, own: RUSH_OWN };
    const amounts = isRush ? rush : fault === "restore" ? RESTORE_AMOUNTS : some;
    const { target, key } = await makeTarget(this.#world, this.#seed, amounts);
    const month = new Date().getUTCMonth();
    const backup = await this.#spend(target, key);
    await this.#deployment.stopAll();
    const judged: Judged[] = [
      { name: "shared", subject_id: target.tenant_id, amount: amounts.shared, granted: this.#log.granted },
      { name: "own", subject_id: target.key_id, amount: amounts.own, granted: 0 },
    ];
    let left: number[] = [];
    for (const each of judged) left.push(await this.#judge(each));
    // One process never refuses early: what is left would have been admitted.
    if (isRush && fault === "stop" && this.#deployment.servers.length === 1 && left[0] !== 0)
      this.#failed(`${left[0]} of ${amounts.shared} units were left, though some were refused`);
    if (backup !== null) left = await this.#restore(backup, judged);
    await this.#deployment.startAll();
    // At the turn of a month the shared quota is refilled, and its figures are those of two periods.
    if (new Date().getUTCMonth() === month) await this.#drain(target, Math.min(...left));
    this.#tally.count("admitted", this.#log.admitted);
    this.#tally.count("grants", this.#log.grants.size);
    this.#tally.count({ stop: "stops", kill: "kills", redis: "Redis losses", restore: "restores" }[fault]);
  }

  /** Loads the processes and disturbs them meanwhile. Returns the folder of the backup, if one is to be restored. */
  async #spend(target: Target, key: string): Promise<string | null> {
    const { fault } = this.#plan;
    const { urls, servers } = this.#deployment;
    const at = (i: number): string => urls[i % urls.length]!;
    const { key: bearer, project_id } = this.#world;
    const starting = Array.from({ length: NODES }, (_, i) => QuotaNode.start(at(i), bearer, project_id, this.#log));
    const nodes = await Promise.all(starting);
    try {
      const load = this.#load(target, key, nodes, "a");
      load.catch(() => {}); // it may fail before it is awaited
      if (fault === "kill" || fault === "redis") await Promise.race([load, this.#untilFault()]);
      if (fault === "kill") await this.#deployment.kill(this.#random.int(0, servers.length - 1));
      if (fault === "redis") await this.#deployment.loseRedis(this.#random);
      await load;
      if (fault !== "restore") return null;
      const folder = await this.#deployment.backUp();
      await this.#load(target, key, nodes, "b");
      return folder;
    } finally {
      await Promise.all(nodes.map((node) => node.close()));
    }
  }

  /** A rush is disturbed in its first half, however fast the machine is. */
  #untilFault(): Promise<void> {
    const { isRush } = this.#plan;
    if (!isRush) return sleep(this.#random.int(0, FAULT_AFTER_MAX_MS));
    const admitted = this.#random.int(1, this.#rushUnits / 2);
    return until(() => this.#log.admitted >= admitted);
  }

  async #load(target: Target, key: string, nodes: readonly QuotaNode[], name: string): Promise<void> {
    const { isRush } = this.#plan;
    const clients = Array.from({ length: isRush ? RUSH_CLIENTS : CLIENTS }, (_, i) => {
      const own = seeded(this.#seed * 1_000 + i);
      const client = new QuotaClient(this.#deployment.servers, this.#world.key, target, own, this.#log);
      return isRush ? client.useUp() : client.run(`r${this.#seed}-${name}-${i}`, CALLS);
    });
    const calls = isRush ? Number.POSITIVE_INFINITY : CALLS;
    await Promise.all([...clients, ...nodes.map((node) => node.run(key, calls))]);
  }

  #failed(what: string): void {
    this.#tally.failed(this.#seed, what);
  }

  /** While no process runs, all that was taken is spent. */
  async #readStored({ name, subject_id }: Judged): Promise<Found> {
    const { target } = this.#deployment;
    const of = (sql: string) => rawSql(target, `${sql} where subject_id = $1 and quota_id = $2`, [subject_id, name]);
    const [balance] = await of("select taken from quota_balances");
    const [grants] = await of("select count(*) as n, coalesce(sum(units), 0) as units from quota_grants");
    return { taken: Number(balance?.taken ?? 0), grants: Number(grants!.n), units: Number(grants!.units) };
  }

  /** Returns what is left of the quota. */
  async #judge(judged: Judged): Promise<number> {
    const { name, amount, granted } = judged;
    const log = this.#log;
    const failed = (what: string): void => this.#failed(`quota ${name}: ${what}`);
    const { taken, units, grants } = await this.#readStored(judged);
    const most = amount + granted;
    if (log.admitted > most) failed(`${log.admitted} units admitted of ${most}`);
    if (taken > most) failed(`${taken} units spent of ${most}`);
    if (units !== granted) failed(`${units} units of grants, ${granted} acknowledged`);
    if (granted > 0 && grants !== log.grants.size) failed(`${grants} grants, ${log.grants.size} acknowledged`);
    if (taken < log.charged - log.uncertain) failed(`${taken} units counted of ${log.charged} charged`);
    const lost = taken - log.charged;
    const allowed = this.#plan.fault === "kill" ? BLOCKS_LOST_MAX * blockSize(most) : 0;
    if (lost > log.uncertain + allowed) failed(`${lost} units lost, ${log.uncertain} uncertain, ${allowed} in blocks`);
    if (allowed > 0) this.#tally.most("units lost by a kill, at most", lost - log.uncertain);
    return most - taken;
  }

  /** The restore names the balances that have moved, and no others. Returns what is left of each quota. */
  async #restore(folder: string, judged: readonly Judged[]): Promise<number[]> {
    const spent = await Promise.all(judged.map((each) => this.#readStored(each)));
    const { moved_balances } = await this.#deployment.restore(folder);
    const left: number[] = [];
    for (const [i, each] of judged.entries()) {
      const now = await this.#readStored(each);
      const before = spent[i]!.taken;
      const named = moved_balances.find((one) => one.subject_id === each.subject_id && one.quota_id === each.name);
      const expected = now.taken < before ? before : undefined;
      if (named?.spent !== expected)
        this.#failed(`quota ${each.name}: ${named?.spent} units named as spent after the backup, ${expected} were`);
      if (named) this.#tally.count("balances moved");
      left.push(each.amount + now.units - now.taken);
    }
    return left;
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
      if (!(await check(cost))) return this.#failed(`${cost} of the last ${left} units were refused`);
    }
    if (await check(1)) this.#failed("a unit beyond the last one was admitted");
  }
}

/** `rushUnits`: how much the callers of a rush use up. */
export const quotasCampaign = (rushUnits: number): Campaign => ({
  name: "quotas",
  promise: "P10",
  claim:
    "no quota is overspent and no grant lost, whatever is killed; a crash costs at most two blocks, a stop nothing.",
  rounds: 200,
  round: "kill, stop, loss of Redis or restore under load",
  backends: ["sqlite", "postgres"],
  async run(options, tally) {
    const deployment = await QuotaDeployment.open(options.scratch);
    try {
      await deployment.use(planOf(options.seed, deployment.hasRedis).fault === "redis");
      const first = await worldOn(deployment.servers[0]!, "quotas");
      const world = { ...first, call: callOf(() => deployment.servers[0]!) };
      for (const seed of rounds(options, tally)) await new Round(deployment, world, seed, tally, rushUnits).run();
    } finally {
      await deployment.close();
    }
  },
});
