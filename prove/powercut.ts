// A power cut under mixed load: whatever was not synced may be lost, in part or completely. Acknowledged changes must
// still be stored. The control run ignores syncs: if it loses nothing, the campaign detects nothing.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { rounds, Tally, type Campaign } from "./campaign.ts";
import { auditServer, callOf, ENV } from "./crash.ts";
import { Ledger, runLoad } from "./load.ts";
import { startLocalInstance } from "../harness/instances/local-instance.ts";
import { makeWorld } from "../harness/instances/world.ts";
import { seeded } from "../harness/random.ts";
import { startServer, type Running } from "../harness/processes/server.ts";
import { until } from "../harness/waiting.ts";
import type { Scratch } from "../harness/databases/scratch.ts";
import { buildShim, cutPower, NO_COMPILER, readImage } from "./shim.ts";

const CLIENTS = 8;
const CONTROL_ROUNDS = 10;

type CuttableServer = { server: Running; ledger: Ledger; cut(seed: number, tally: Tally): Promise<void> };

/** A server on recorded files; `cut` puts it under load, cuts the power and audits what is left. */
async function openCuttableServer(scratch: Scratch, shim: string, lie: boolean): Promise<CuttableServer> {
  const db = join(scratch.dir, "keyrack.db");
  const log = join(scratch.dir, "writes.log");
  const env = {
    LD_PRELOAD: shim,
    KEYRACK_SHIM_PREFIX: db,
    KEYRACK_SHIM_LOG: log,
    KEYRACK_SHIM_SYNC_US: "4000",
    ...ENV,
    ...(lie && { KEYRACK_SHIM_LIE: "1" }),
  };
  const ledger = new Ledger();
  // The first start is not recorded and ends cleanly: the disk certainly has its files.
  const first = await startLocalInstance({ target: scratch.target, dir: scratch.dir });
  const world = await makeWorld(first.call, first.app.bootstrap.token as string, "powercut");
  await first.app.stop();
  const files = [db, `${db}-wal`];
  let image = readImage(files);
  const cuttable: CuttableServer = {
    server: await startServer(scratch.args, env),
    ledger,
    async cut(seed, tally) {
      const random = seeded(seed);
      const call = callOf(() => cuttable.server);
      const stop = new AbortController();
      const before = ledger.acknowledged;
      const load = runLoad({ call, world, ledger, seed, clients: CLIENTS }, stop.signal);
      // On a busy machine it may take longer than the time until the cut.
      await Promise.race([load, until(() => ledger.acknowledged > before)]);
      await sleep(random.int(50, 500));
      await cuttable.server.end("SIGKILL");
      stop.abort();
      await load;
      tally.count("writes forgotten", cutPower(image, log, random));
      image = readImage(files);
      cuttable.server = await startServer(scratch.args, env);
      await auditServer(call, world, ledger, { scratch, seed }, tally);
    },
  };
  return cuttable;
}

/** The number of cuts after which an acknowledged change was lost without syncs; null if none was. */
async function controlLoss(scratch: Scratch, shim: string, seed: number): Promise<number | null> {
  const cuttable = await openCuttableServer(scratch, shim, true);
  const tally = new Tally(() => {});
  try {
    for (let i = 0; i < CONTROL_ROUNDS; i++) {
      // A database that does not open any more has lost everything.
      const opened = await cuttable.cut(seed + i, tally).then(
        () => true,
        () => false,
      );
      if (!opened || tally.failures.length > 0) return i + 1;
    }
    return null;
  } finally {
    await cuttable.server.end("SIGKILL");
  }
}

export const powercut: Campaign = {
  name: "powercut",
  promise: "P1, P2, P3",
  claim: "A power cut, which forgets whatever was not synced, loses nothing that was acknowledged.",
  rounds: 200,
  round: "cut",
  backends: ["sqlite"],
  async run(options, tally) {
    const { scratch, seed } = options;
    const shim = buildShim(scratch.dir);
    if (shim === null) {
      tally.skipped = NO_COMPILER;
      return;
    }
    const dir = join(scratch.dir, "control");
    mkdirSync(dir);
    const target = { kind: "sqlite", file: join(dir, "keyrack.db") } as const;
    const lostAfter = await controlLoss({ dir, target, args: ["--data-dir", dir] }, shim, seed);
    if (lostAfter === null)
      tally.failed(seed, "the control run without syncs lost nothing: the campaign detects nothing");
    tally.figures["control lost after cuts"] = lostAfter ?? "never";
    const cuttable = await openCuttableServer(scratch, shim, false);
    try {
      for (const each of rounds(options, tally)) await cuttable.cut(each, tally);
    } finally {
      await cuttable.server.end("SIGTERM");
    }
  },
};
