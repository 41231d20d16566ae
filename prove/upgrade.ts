// A rolling upgrade under load: two processes of an older version on one PostgreSQL are replaced one by one, and the
// first new one is killed during its migration. Clients go through a balancer that takes a process out while it is
// replaced.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { rawSql } from "../harness/databases/raw-sql.ts";
import { withScratch, type Scratch } from "../harness/databases/scratch.ts";
import { unusedPort } from "../harness/processes/unused-port.ts";
import { makeNewerCheckout, NEXT_SCHEMA } from "../harness/processes/newer-checkout.ts";
import { startServer, type Running } from "../harness/processes/server.ts";
import { seeded, type Random } from "../harness/random.ts";
import { inspect } from "../src/store/offline/thread-tasks.ts";
import { rounds, type Campaign, type Tally } from "./campaign.ts";
import { Balancer, type Slot } from "./balancer.ts";
import { auditServer, ENV, worldOn } from "./crash.ts";
import { Ledger, runLoad } from "./load.ts";
import { RevocationWatch } from "./revocation-watch.ts";

const MIGRATION_MS = 800;
/** On stderr, when it begins. */
const MIGRATING = "migrating the database";
const SETTLE_MS = 15_000;
type UpgradeOptions = {
  clients: number;
  /** Leaves the processes that are replaced a share of the machine. */
  paceMs: number;
  /** Between two replacements, as a sign that every node follows. */
  receipts: number;
};

type Round = UpgradeOptions & {
  scratch: Scratch;
  seed: number;
  random: Random;
  tally: Tally;
  from: string;
  to: string;
};

/** Two places behind the balancer, each with a port and a data dir that its next process takes over. */
async function openSlots({ scratch, from }: Round): Promise<Slot[]> {
  const slots: Slot[] = [];
  for (const name of ["a", "b"]) {
    const dir = join(scratch.dir, name);
    mkdirSync(dir, { mode: 0o700 });
    const slot: Slot = { name, port: await unusedPort(), dir, server: undefined, stopping: false };
    slot.server = await start(scratch, slot, from);
    slots.push(slot);
  }
  return slots;
}

/** The second process has the master key of the first, and both have one public address. */
function start({ dir, target }: Scratch, slot: Slot, bin: string, spawned?: Parameters<typeof startServer>[3]) {
  if (target.kind !== "postgres") throw new Error("an upgrade needs PostgreSQL");
  const args = ["--data-dir", slot.dir, "--database-url", target.url, "--port", String(slot.port)];
  const env = {
    ...ENV,
    KEYRACK_MASTER_KEY_FILE: join(dir, "a", "master.key"),
    KEYRACK_PUBLIC_URL: "https://keys.example.com",
    KEYRACK_REVOKE_WAIT_MS: "2000",
    KEYRACK_BACKUP_EVERY: "off",
  };
  const { KEYRACK_MASTER_KEY_FILE, ...first } = env;
  return startServer(args, slot.name === "a" ? first : { ...first, KEYRACK_MASTER_KEY_FILE }, bin, spawned);
}

async function stop(slot: Slot, { seed, tally }: Round): Promise<void> {
  slot.stopping = true;
  const code = await slot.server?.end("SIGTERM");
  slot.server = undefined;
  slot.stopping = false;
  if (code !== 0) tally.failed(seed, `process ${slot.name} ended with ${code} after SIGTERM`);
}

const isMigrated = async ({ scratch }: Round): Promise<boolean> =>
  (await rawSql(scratch.target, "select version from schema_migrations where version = $1", [NEXT_SCHEMA])).length > 0;

/** Starts the newer version and kills it at a random moment of its migration. */
async function killDuringMigration(slot: Slot, round: Round): Promise<void> {
  const { scratch, random, seed, tally, to } = round;
  const delay = random.int(0, MIGRATION_MS / 2); // the kill itself may be late
  let text = "";
  const starting = start(scratch, slot, to, (child) => {
    child.stderr?.on("data", (chunk: Buffer) => {
      if (text.includes(MIGRATING)) return;
      text += chunk.toString("latin1"); // a line may come in parts
      if (text.includes(MIGRATING)) setTimeout(() => child.kill("SIGKILL"), delay);
    });
  });
  const survivor = await starting.catch(() => undefined);
  if (survivor) {
    await survivor.end("SIGKILL"); // it has the port of the next start
    tally.failed(seed, "the newer version was ready before it could be killed in its migration");
  }
  if (await isMigrated(round)) tally.failed(seed, "a killed migration was applied");
  tally.count("killed migrations");
}

async function roll(slots: Slot[], watch: RevocationWatch, round: Round): Promise<void> {
  const { scratch, random, tally, seed, to, receipts } = round;
  const pause = async (): Promise<void> => {
    await watch.follow(receipts);
    await sleep(random.int(0, 500));
  };
  const [first, second] = slots as [Slot, Slot];
  await pause();
  await stop(first, round);
  await killDuringMigration(first, round);
  first.server = await start(scratch, first, to);
  tally.most("slowest migrating start ms", first.server.readyMs);
  if (!(await isMigrated(round))) tally.failed(seed, "the start after the kill did not finish the migration");
  await pause(); // both versions serve
  await stop(second, round);
  second.server = await start(scratch, second, to);
  await pause();
}

async function upgradeOnce(round: Round): Promise<void> {
  const { scratch, seed, tally, clients, paceMs } = round;
  const slots = await openSlots(round);
  const balancer = new Balancer(slots, (what) => tally.failed(seed, what));
  const ledger = new Ledger();
  const halt = new AbortController();
  try {
    const world = await worldOn(slots[0]?.server as Running, "upgrade");
    const watch = await RevocationWatch.open(slots, { ...world, call: balancer.call }, (what) =>
      tally.failed(seed, what),
    );
    try {
      const load = { call: balancer.call, world, ledger, seed, clients, paceMs: () => paceMs, patient: true };
      const working = [runLoad(load, halt.signal), watch.run(halt.signal)];
      await roll(slots, watch, round);
      halt.abort();
      await Promise.all(working);
      await watch.settled(SETTLE_MS);
    } finally {
      halt.abort();
      await watch.close();
    }
    const { acknowledged = 0, records = 0 } = tally.figures;
    await auditServer(balancer.call, world, ledger, { scratch, seed }, tally);
    tally.count("acknowledged", Number(acknowledged));
    tally.count("records", Number(records));
    const { findings, chains } = await inspect(scratch.target);
    for (const finding of findings) tally.failed(seed, finding);
    tally.count("chains verified", chains);
    tally.count("requests", balancer.requests);
    tally.count("503 while stopping", balancer.refusedWhileStopping);
    tally.count("receipts", watch.receipts);
  } finally {
    halt.abort();
    for (const { server } of slots) await server?.end("SIGTERM");
  }
}

export const upgradeCampaign = (load: UpgradeOptions): Campaign => ({
  name: "upgrade",
  promise: "P1, P3, P6",
  claim: "Replacing the processes one by one with a newer version loses nothing, whatever is killed on the way.",
  rounds: 20,
  round: "rolling upgrade",
  backends: ["postgres"],
  async run(options, tally) {
    using newer = await makeNewerCheckout({ slowMs: MIGRATION_MS });
    const { target } = options.scratch;
    const server = target.kind === "postgres" ? target.url : "";
    for (const seed of rounds(options, tally)) {
      const base = { ...load, seed, random: seeded(seed), tally, from: options.from, to: newer.bin };
      await withScratch("postgres", (scratch) => upgradeOnce({ ...base, scratch }), server);
      options.print(`seed ${seed}: ${tally.figures.acknowledged} acknowledged, ${tally.figures.receipts} receipts`);
    }
  },
});

export const upgrade = upgradeCampaign({ clients: 4, paceMs: 20, receipts: 2 });
