// A wall clock that jumps under load: an hour or a day, forwards and back, with restarts in between. The audit log must
// stay in order, expired credentials must stay expired, no window of a limit may admit more than the limit, and no claim
// may be taken from its holder. The last two are measured with real time, which does not jump.
import { setTimeout as sleep } from "node:timers/promises";
import { createClock, STEADY_FORWARD_RATE, systemSources, type Clock } from "../src/domain/core/clock.ts";
import { openRaw, type Raw } from "../harness/databases/raw-sql.ts";
import { rounds, type Campaign, type Tally } from "./campaign.ts";
import { auditLedger, Ledger, runLoad } from "./load.ts";
import { seeded } from "../harness/random.ts";
import { startLocalInstance, type LocalInstance } from "../harness/instances/local-instance.ts";
import type { Call } from "../harness/processes/send.ts";
import type { Scratch } from "../harness/databases/scratch.ts";
import { makePerson, makeWorld, must, type World } from "../harness/instances/world.ts";
import { hash } from "../harness/models/idempotency.ts";
import { LOCK_MS } from "../src/kernel/idempotency.ts";
import { DAY_MS, HOUR_MS } from "../src/kernel/durations.ts";

const JUMPS = [HOUR_MS, -HOUR_MS, DAY_MS, -DAY_MS, 61_000, -61_000, 5_000, -5_000] as const;
const LIMIT = 40;
const WINDOW_MS = 60_000;
/** The shortest real time that leases and windows may last, relative to the stated one. */
const SHORTEST = 1 / (1 + STEADY_FORWARD_RATE);
/** The wall clock is read once a second: time that runs a hundred times faster makes that 10 ms. */
const SPEED = 100;
const realMs = (): number => performance.now() * SPEED;
const FLAGS = { ingest_events_per_minute: "100000000" } as const;

/** An instance with a manual wall clock; its own clock is derived from it as in production. */
class ClockRig {
  readonly #scratch: Scratch;
  rig!: LocalInstance;
  clock!: Clock;
  wallOffset = 0;

  constructor(scratch: Scratch) {
    this.#scratch = scratch;
  }

  async start(): Promise<void> {
    const ahead = realMs() - performance.now();
    const real = createClock({
      wall: () => systemSources.wall() + realMs() - performance.now() - ahead + this.wallOffset,
      monotonic: realMs,
    });
    let last = 0;
    this.clock = {
      now: () => {
        const now = real.now();
        if (now < last) throw new Error("the clock ran backwards");
        return (last = now);
      },
      steady: () => real.steady(),
      setBack: (ms) => real.setBack(ms),
    };
    const { target, dir } = this.#scratch;
    this.rig = await startLocalInstance({ target, dir, clock: this.clock, flags: FLAGS });
  }

  call: Call = (...args) => this.rig.call(...args);

  async restart(): Promise<void> {
    await this.rig.app.stop();
    await this.start();
  }
}

type Admission = { before: number; after: number };

/** Spends a limit as fast as it may, and records when. */
async function spend(rig: ClockRig, { key, project_id, tenant_id }: World, admitted: Admission[]): Promise<void> {
  const limits = [{ id: "clock", limit: LIMIT, window_ms: WINDOW_MS, algorithm: "sliding", scope: "tenant" }];
  for (let i = 0; i < LIMIT * 1.5; i++) {
    const before = realMs();
    const body = await must(rig.call(key, "POST /v1/ratelimit/check", { project_id, tenant_id, env: "live", limits }));
    if (body.allowed) admitted.push({ before, after: realMs() });
  }
}

/** The first admission that was certainly too early; each was decided between the two times recorded for it. */
function overAdmission(admitted: readonly Admission[]): string | null {
  for (const [i, { after }] of admitted.entries()) {
    const first = admitted[i - LIMIT];
    if (first && after - first.before < WINDOW_MS * SHORTEST)
      return `${LIMIT + 1} admitted within ${Math.round(after - first.before)} ms`;
  }
  return null;
}

/** Claims the name of a round; the returned function claims it again, which must not execute while the lease lasts. */
async function claimOnce({ call }: ClockRig, { key }: World, seed: number): Promise<(tally: Tally) => Promise<void>> {
  const input = { env: "live", scope_hash: hash(`clock ${seed}`), fingerprint: hash("body") };
  const claim = () => must(call(key, "POST /v1/idempotency/claim", input));
  const before = realMs();
  await claim();
  return async (tally) => {
    const { state } = await claim();
    if (realMs() - before >= LOCK_MS * SHORTEST) return;
    tally.count("claims tried");
    if (state !== "in_progress") tally.failed(seed, `a claim is ${state} while its lease lasts`);
  };
}

async function judgeLog(raw: Raw, seed: number, tally: Tally): Promise<void> {
  const rows = await raw.all("select workspace_id, seq, occurred_at from audit_log order by workspace_id, seq");
  for (const [i, row] of rows.entries()) {
    const above = rows[i - 1];
    if (above?.workspace_id !== row.workspace_id) continue;
    if (Number(row.seq) !== Number(above?.seq) + 1) tally.failed(seed, `a gap before row ${String(row.seq)}`);
    if (Number(row.occurred_at) < Number(above?.occurred_at))
      tally.failed(seed, `row ${String(row.seq)} happened before the one above it`);
  }
  tally.figures["audit rows"] = rows.length;
}

/** A credential is refused from its expiry on. */
async function judgeExpiry(rig: ClockRig, { key }: World, dir: string, seed: number, tally: Tally): Promise<void> {
  const { call, clock } = rig;
  const expires = clock.now() + 10 * 60_000;
  const secret = await must(
    call(key, "POST /v1/secret_keys", { env: "live", expires_at: new Date(expires).toISOString() }),
  );
  const person = await makePerson(call, dir, `clock${seed}@example.com`);
  const me = await must(call(person.session, "GET /v1/auth/sessions"));
  const sessionEnds = Date.parse(me.data[0].expires_at as string);
  const refused = async (bearer: string, route: string): Promise<boolean> => (await call(bearer, route)).status === 401;
  if (clock.now() < expires && (await refused(secret.key, "GET /v1/workspace")) && clock.now() < expires)
    tally.failed(seed, "a secret key is refused before it expired");
  rig.wallOffset += DAY_MS * 400;
  await sleep(30);
  if (clock.now() < sessionEnds) tally.failed(seed, "the clock did not follow a jump forwards");
  if (!(await refused(secret.key, "GET /v1/workspace"))) tally.failed(seed, "an expired secret key is accepted");
  if (!(await refused(person.session, "GET /v1/auth/me"))) tally.failed(seed, "an expired session is accepted");
  rig.wallOffset -= DAY_MS * 400;
  await sleep(30);
  if (!(await refused(secret.key, "GET /v1/workspace"))) tally.failed(seed, "a jump back revived a secret key");
  if (!(await refused(person.session, "GET /v1/auth/me"))) tally.failed(seed, "a jump back revived a session");
  tally.count("expiries tried", 2);
}

export const clock: Campaign = {
  name: "clock",
  promise: "P3, P4, P5",
  claim: "When the wall clock jumps, the audit log stays in order, expired stays expired, and limits and claims hold.",
  rounds: 200,
  round: "jump under load",
  backends: ["sqlite", "postgres"],
  async run(options, tally) {
    const { scratch } = options;
    const rig = new ClockRig(scratch);
    await rig.start();
    const raw = await openRaw(scratch.target);
    const ledger = new Ledger();
    try {
      const world = await makeWorld(rig.call, rig.rig.app.bootstrap.token as string, "clock");
      let admitted: Admission[] = [];
      for (const seed of rounds(options, tally)) {
        const random = seeded(seed);
        const before = admitted.length;
        const stop = new AbortController();
        const load = runLoad({ call: rig.call, world, ledger, seed, clients: 4, patient: true }, stop.signal);
        await sleep(random.int(5, 40));
        const claimAgain = await claimOnce(rig, world, seed);
        rig.wallOffset += random.pick(JUMPS);
        await sleep(30); // the clock has read it
        await claimAgain(tally);
        if (seed % 4 === 0) {
          stop.abort();
          await load;
          await rig.restart();
          tally.count("restarts");
          if (scratch.target.kind === "sqlite") await claimAgain(tally);
          else admitted = []; // each process has a steady time of its own
        }
        await Promise.all([spend(rig, world, admitted), sleep(60)]);
        stop.abort();
        await load;
        tally.count("admitted", admitted.length - before);
        const over = overAdmission(admitted);
        if (over !== null) tally.failed(seed, over);
        const { lost, wrong } = await auditLedger(raw, world, ledger, { lasting: true });
        for (const what of [...lost, ...wrong]) tally.failed(seed, what);
        if (seed % 5 === 0) await judgeExpiry(rig, world, scratch.dir, seed, tally);
        const chain = await must(rig.call(world.key, "GET /v1/audit_logs/chain"));
        if (!chain.verified) tally.failed(seed, `the chain breaks at ${chain.broken_seq}: ${chain.reason}`);
        await judgeLog(raw, seed, tally);
      }
      tally.figures.acknowledged = ledger.acknowledged;
    } finally {
      await raw.close();
      await rig.rig.app.stop();
    }
  },
};
