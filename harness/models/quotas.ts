// Random sequences of calls to one quota, compared with a naive account of it: units admitted, owed, in leases and
// returned, without blocks or transactions. Which of them came from grants is read from the balance.
import assert from "node:assert/strict";
import { createGrant, voidGrant } from "../../src/domain/quotas/grants.ts";
import { DAY_MS, MINUTE_MS } from "../../src/kernel/durations.ts";
import type { TestServices } from "../instances/services.ts";
import { seeded } from "../random.ts";
import { MeteredWorld, quotaOf } from "../ratelimit/metered.ts";

const AMOUNTS = [0, 1, 5, 200, 700, 64_000] as const;

/** Runs one sequence on processes that share a database; throws where they differ from the account. */
export async function runQuotaModel(processes: readonly TestServices[], seed: number, steps: number): Promise<void> {
  const { int, next, pick } = seeded(seed);
  const overage = pick(["deny", "deny", "deny", "report"] as const);
  const refill = pick(["daily", "daily", "none"] as const);
  let amount: number = pick(AMOUNTS);
  const { clock, services, sql } = processes[0]!;
  const first = await MeteredWorld.create(services, { tenant: [quotaOf({ amount, overage, refill })] });
  const worlds = processes.map((one) => first.in(one.services));
  const { tenant_id, ctx } = first;
  const isAlone = processes.length === 1;
  const log: string[] = [];
  const now = () => clock.now();
  const day = () => (refill === "daily" ? Math.floor(now() / DAY_MS) : 0);

  let leases: { id: string; units: number; end: number; day: number; at: number; isEnded: boolean }[] = [];
  const grants: { id: string; end: number }[] = [];
  /** `fromAmount`: units of the amount that are used, without those in leases. */
  let [spent, fromAmount, granted, held, today] = [0, 0, 0, 0, day()];
  /** Since the last comparison: units used less those that came back, and units granted. */
  let [used, added] = [0, 0];
  /** A grant or a period has ended since, or units came back to one that has: the split is read from the database. */
  let isLossy = false;
  /** What can be spent at most; unknown after such an end. */
  let pool = amount;

  const heldGranted = () => {
    let sum = 0;
    for (const one of processes)
      for (const holding of one.services.quotas.spending(`${tenant_id}/`)) sum += holding.heldGranted;
    return sum;
  };
  const giveBack = async () => {
    for (const one of processes) await one.services.quotas.recall(`${tenant_id}/`);
  };
  const figures = async (at: number) => {
    const balance = await worlds[at]!.balance();
    const { spent: charged, granted: units, held: leased, remaining, exceeded } = balance;
    return { spent: charged, granted: units, held: leased, remaining, exceeded };
  };
  const stored = async () => {
    const [row] = await sql("select * from quota_balances where subject_id = $1", [tenant_id]);
    const isCurrent = refill === "none" || Math.floor(Number(row?.["period_start"]) / DAY_MS) === day();
    const rows = await sql("select remaining, expires_at from quota_grants where subject_id = $1", [tenant_id]);
    const open = rows.filter((one) => one["expires_at"] === null || Number(one["expires_at"]) > now());
    return {
      taken: isCurrent && row ? Number(row["taken"]) : 0,
      fromAmount: isCurrent && row ? Number(row["from_amount"]) : 0,
      granted: open.reduce((sum, one) => sum + Number(one["remaining"]), 0),
    };
  };
  const charge = (units: number) => {
    spent += units;
    used += units;
    pool -= units;
  };
  const pass = (ms: number) => {
    log.push(`pass ${ms}`);
    clock.advance(ms);
    if (grants.some(({ end }) => end > now() - ms && end <= now())) isLossy = true;
    for (const lease of leases) {
      if (lease.isEnded || now() < lease.end) continue;
      lease.isEnded = true;
      held -= lease.units;
      if (lease.day === day()) [spent, used] = [spent + lease.units, used + lease.units];
    }
    leases = leases.filter(({ end }) => now() < end + MINUTE_MS);
    if (day() !== today) [spent, isLossy, today] = [0, true, day()];
    if (isLossy) pool = Number.POSITIVE_INFINITY;
  };

  const compare = async () => {
    const peek = async () => {
      for (const holding of services.quotas.spending(`${tenant_id}/`)) await holding.pending;
      return (await worlds[0]!.check({ cost: 0 })).quotas[0]!.remaining;
    };
    const peeked = isAlone && held === 0 && next() < 0.5 ? await peek() : null;
    const seen = isAlone ? [await figures(0)] : [];
    if (peeked !== null) assert.equal(peeked, seen[0]!.remaining, "remaining in a response before");
    const givesBack = !isAlone || isLossy || next() < 0.3;
    if (givesBack) {
      await giveBack();
      seen.push(await figures(int(0, worlds.length - 1)));
      log.push(`gave back: ${JSON.stringify(seen.at(-1))}`);
      for (const each of seen) assert.deepEqual(each, seen.at(-1), "a balance before everything was given back");
      const inLeases = heldGranted();
      const rows = await stored();
      assert.equal(rows.taken, spent + held, "taken");
      assert.equal(rows.granted + inLeases, seen[0]!.granted, "units of grants");
      if (isLossy) [fromAmount, used, added, granted] = [rows.fromAmount - held + inLeases, 0, 0, seen[0]!.granted];
      isLossy = false;
    }
    const found = seen[0]!;
    const fromGrants = granted + added - found.granted;
    fromAmount += used - fromGrants;
    [granted, used, added] = [found.granted, 0, 0];
    const remaining = Math.max(0, Math.max(0, amount - fromAmount) + granted - held);
    assert.deepEqual(found, { spent, granted, held, remaining, exceeded: fromAmount > amount });
    const inLeases = heldGranted();
    pool = Math.max(0, amount - fromAmount - (held - inLeases)) + granted - inLeases;
    if (isAlone) assert.equal(await peek(), pool, "remaining in a response");
  };

  const check = async (at: number, cost: number) => {
    const { allowed } = await worlds[at]!.check({ cost });
    log.push(`${at} check ${cost}: ${allowed}`);
    // Another process may hold the units that are missing.
    if (overage === "deny" && (allowed || isAlone)) assert.equal(allowed, cost <= pool, `check with ${pool}`);
    if (overage === "report") assert.ok(allowed);
    if (allowed) charge(cost);
  };
  const lease = async (at: number, want: number) => {
    const { granted: units, lease_id, expires_in_ms } = await worlds[at]!.lease(want);
    log.push(`${at} lease ${want}: ${units} for ${expires_in_ms}`);
    if (overage === "deny" && (units > 0 || isAlone)) assert.equal(units > 0, pool > 0, `lease with ${pool}`);
    if (overage === "deny") assert.ok(units <= pool, `lease of ${units} with ${pool}`);
    if (lease_id === null) return;
    [held, pool] = [held + units, pool - units];
    leases.push({ id: lease_id, units, end: now() + expires_in_ms, day: day(), at, isEnded: false });
  };
  const giveBackLease = async () => {
    if (leases.length === 0) return;
    const one = pick(leases);
    const unused = pick([0, int(0, one.units), one.units]);
    const { returned } = await worlds[one.at]!.return(one.id, unused);
    log.push(`${one.at} return ${unused} of ${one.units}: ${returned}`);
    assert.equal(returned, unused);
    leases = leases.filter(({ id }) => id !== one.id);
    if (!one.isEnded) [held, spent, used] = [held - one.units, spent + one.units, used + one.units];
    if (one.day === day()) [spent, used] = [spent - unused, used - unused];
    [isLossy, pool] = [true, Number.POSITIVE_INFINITY];
  };
  const grant = async (at: number) => {
    const units = pick([1, 10, 300, 70_000]);
    const lifeMs = pick([undefined, 3_000, 30_000, 2 * DAY_MS]);
    const target = { scope: "tenant", tenant_id, quota_id: "calls" } as const;
    const end = lifeMs === undefined ? undefined : now() + lifeMs;
    const made = await createGrant(worlds[at]!.ctx, target, { units, expires_at: end });
    log.push(`${at} grant ${units} for ${lifeMs}`);
    grants.push({ id: made.grant.id, end: end ?? Number.POSITIVE_INFINITY });
    [added, pool] = [added + units, pool + units];
  };
  const voidOne = async (at: number) => {
    if (grants.length === 0) return;
    log.push(`${at} void`);
    await voidGrant(worlds[at]!.ctx, pick(grants).id);
    [isLossy, pool] = [true, Number.POSITIVE_INFINITY];
    if (!isAlone) await giveBack(); // the notice may be under way
  };
  const owe = async (at: number, owed: number) => {
    await worlds[at]!.check({ cost: 0, owed });
    log.push(`${at} owe ${owed}`);
    charge(owed);
  };
  const define = async () => {
    await compare();
    amount = pick(AMOUNTS);
    log.push(`amount ${amount}`);
    const quotas = JSON.stringify([quotaOf({ amount, overage, refill })]);
    await sql("update tenants set quotas = $1 where id = $2", [quotas, tenant_id]);
    for (const one of processes) one.services.quotas.definitions.changed(ctx.actor.workspace_id);
    pool = Number.POSITIVE_INFINITY;
    await compare();
  };
  const wait = () => {
    const ends = grants.map(({ end }) => end - now()).filter((ms) => ms > 0 && ms < DAY_MS);
    const toMidnight = DAY_MS - (now() % DAY_MS);
    pass(pick([int(1, 3_000), 11_000, 61_000, toMidnight, toMidnight - 2_000, ...ends, ...ends]));
  };

  try {
    for (let i = 0; i < steps; i++) {
      const at = int(0, worlds.length - 1);
      const roll = next();
      if (roll < 0.32) await check(at, pick([1, 1, 1, 2, 7, 40, 900]));
      else if (roll < 0.42) await lease(at, pick([1, 3, 20, 1_500]));
      else if (roll < 0.52) await giveBackLease();
      else if (roll < 0.6) await grant(at);
      else if (roll < 0.63) await voidOne(at);
      else if (roll < 0.68) await owe(at, pick([1, 10, 300, 63_000]));
      else if (roll < 0.73) await define();
      else if (roll < 0.9) wait();
      else for (const one of processes) await one.services.quotas.sweep();
      if (isAlone || next() < 0.25) await compare();
    }
    await compare();
  } catch (error) {
    throw new Error(`seed ${seed}, ${overage} ${refill}:\n${log.join("\n")}\n${(error as Error).message}`);
  }
}
