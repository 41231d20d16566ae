// Writes without pause beside a reader on another connection that holds its snapshot for up to a second, or several
// short ones that overlap: the -wal must not grow without bound, and a write must not wait long for a checkpoint.
import { randomBytes } from "node:crypto";
import { statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import Database from "better-sqlite3";
import { openTestServices, testClock, vendorOf } from "../harness/instances/services.ts";
import { seeded, type Random } from "../harness/random.ts";
import { claim, complete } from "../src/domain/idempotency/claims.ts";
import { SqliteDriver } from "../src/store/sqlite/driver.ts";
import { rounds, type Campaign, type Tally } from "./campaign.ts";

const WRITERS = 8;
const BODY_BYTES = 2_000;
const ROUND_MS = 5_000;
const SAMPLE_MS = 20;
type Range = { min: number; max: number };
type Reading = { readers: number; readMs: Range; gapMs: Range };
/** One reader that leaves gaps, or several that leave none, as the threads of the server do. */
const READINGS: readonly Reading[] = [
  { readers: 1, readMs: { min: 50, max: 1_000 }, gapMs: { min: 50, max: 150 } },
  { readers: 3, readMs: { min: 1, max: 20 }, gapMs: { min: 0, max: 1 } },
];
const WAL_MAX_BYTES = 32 * 1024 * 1024;
const WAIT_MS = 50;

type Ctx = Awaited<ReturnType<typeof vendorOf>>;

type Checkpoint = (this: SqliteDriver, idle?: boolean, now?: number) => Promise<void>;

const hash = (): string => randomBytes(32).toString("hex");

async function write(ctx: Ctx, end: AbortSignal, tally: Tally): Promise<void> {
  const body = randomBytes(BODY_BYTES).toString("base64");
  while (!end.aborted) {
    const scope = { scope_hash: hash(), env: "live" as const };
    const { lock_token } = await claim(ctx, { ...scope, fingerprint: hash() });
    await complete(ctx, { ...scope, lock_token: lock_token ?? "", status: 200, headers: {}, body });
    tally.count("writes", 2);
  }
}

async function read(file: string, { readMs, gapMs }: Reading, random: Random, end: AbortSignal): Promise<void> {
  const db = new Database(file, { readonly: true });
  while (!end.aborted) {
    db.exec("begin");
    db.prepare("select count(*) from workspaces").get();
    await sleep(random.int(readMs.min, readMs.max));
    db.exec("commit");
    await sleep(random.int(gapMs.min, gapMs.max));
  }
  db.close();
}

/** Every write behind it waits for a checkpoint. Returns what restores the driver. */
function timeCheckpoints(tally: Tally): () => void {
  const found: unknown = Reflect.get(SqliteDriver.prototype, "checkpointIfDue");
  const original = found as Checkpoint;
  SqliteDriver.prototype.checkpointIfDue = async function (this: SqliteDriver, ...args) {
    const started = performance.now();
    await original.apply(this, args);
    const ms = performance.now() - started;
    tally.most("longest checkpoint ms", ms);
    if (ms > WAIT_MS) tally.count(`checkpoints over ${WAIT_MS} ms`);
  };
  return () => {
    SqliteDriver.prototype.checkpointIfDue = original;
  };
}

export const wal: Campaign = {
  name: "wal",
  promise: "P8",
  claim: "Beside readers of up to a second the -wal stays below 32 MiB.",
  rounds: 12,
  round: "5 s",
  backends: ["sqlite"],
  async run(run, tally) {
    const { target, dir } = run.scratch;
    if (target.kind !== "sqlite") return;
    const { file } = target;
    const { services } = await openTestServices(target, { data_dir: dir }, testClock(Date.now()));
    const restore = timeCheckpoints(tally);
    try {
      const ctx = await vendorOf(services);
      for (const seed of rounds(run, tally)) {
        const end = AbortSignal.timeout(ROUND_MS);
        const writers = Array.from({ length: WRITERS }, () => write(ctx, end, tally));
        const reading = READINGS[seed % READINGS.length] as Reading;
        const readers = Array.from({ length: reading.readers }, (_, i) => read(file, reading, seeded(seed + i), end));
        const ended = Promise.all([...readers, ...writers]);
        let most = 0;
        while (!end.aborted) {
          most = Math.max(most, statSync(`${file}-wal`).size);
          await sleep(SAMPLE_MS);
        }
        await ended;
        tally.most("largest -wal MiB", most / 1024 / 1024);
        if (most >= WAL_MAX_BYTES) tally.failed(seed, `the -wal had ${most} bytes`);
      }
    } finally {
      restore();
      await services.store.close();
    }
  },
};
