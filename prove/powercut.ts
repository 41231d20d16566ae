// The power goes out under mixed load: whatever was not synced may be gone, in part or altogether. What was acknowledged
// must still be there. The control is the same with syncs that do nothing: if it loses nothing, the harness is blind.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { rounds, Tally, type Campaign } from "./campaign.ts";
import { auditServer, callOf, ENV, worldOn } from "./crash.ts";
import { Ledger, runLoad } from "./load.ts";
import { seeded } from "../harness/random.ts";
import { startServer, type Running } from "../harness/processes/server.ts";
import type { Scratch } from "../harness/databases/scratch.ts";
import { buildShim, cutPower, NO_COMPILER, readImage } from "./shim.ts";

const CLIENTS = 8;
const CONTROL_ROUNDS = 10;

type Cutting = { server: Running; ledger: Ledger; cut(seed: number, tally: Tally): Promise<void> };

/** A server on recorded files; `cut` loads it, takes its power away and audits what comes back. */
async function openCutting(scratch: Scratch, shim: string, lie: boolean): Promise<Cutting> {
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
  // The first start is made without a recording and ends cleanly: it is what the disk surely has.
  const first = await startServer(scratch.args);
  const world = await worldOn(first, "powercut");
  await first.end("SIGTERM");
  const files = [db, `${db}-wal`];
  let image = readImage(files);
  const cutting: Cutting = {
    server: await startServer(scratch.args, env),
    ledger,
    async cut(seed, tally) {
      const random = seeded(seed);
      const call = callOf(() => cutting.server);
      const stop = new AbortController();
      const load = runLoad({ call, world, ledger, seed, clients: CLIENTS }, stop.signal);
      await sleep(random.int(50, 500));
      await cutting.server.end("SIGKILL");
      stop.abort();
      await load;
      tally.count("writes forgotten", cutPower(image, log, random));
      image = readImage(files);
      cutting.server = await startServer(scratch.args, env);
      await auditServer(call, world, ledger, { scratch, seed }, tally);
    },
  };
  return cutting;
}

/** How many cuts it took to lose something acknowledged when syncs did nothing; null when none did. */
async function controlLoss(scratch: Scratch, shim: string, seed: number): Promise<number | null> {
  const cutting = await openCutting(scratch, shim, true);
  const tally = new Tally(() => {});
  try {
    for (let i = 0; i < CONTROL_ROUNDS; i++) {
      // A database that does not even open again has lost everything.
      const opened = await cutting.cut(seed + i, tally).then(
        () => true,
        () => false,
      );
      if (!opened || tally.failures.length > 0) return i + 1;
    }
    return null;
  } finally {
    await cutting.server.end("SIGKILL");
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
    if (lostAfter === null) tally.failed(seed, "the control, without syncs, lost nothing: the harness is blind");
    tally.figures["control lost after cuts"] = lostAfter ?? "never";
    const cutting = await openCutting(scratch, shim, false);
    try {
      for (const each of rounds(options, tally)) await cutting.cut(each, tally);
    } finally {
      await cutting.server.end("SIGTERM");
    }
  },
};
