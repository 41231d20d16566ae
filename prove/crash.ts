// kill -9 under mixed load: nothing acknowledged is lost, nothing is half done, the chain verifies.
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { openSource } from "../src/store/offline/source.ts";
import type { ChainCheck } from "../src/store/audit/verify.ts";
import { verifyStoredChain } from "../src/store/audit/verify.ts";
import { openRaw } from "../harness/databases/raw-sql.ts";
import { rounds, type Campaign, type RunOptions, type Tally } from "./campaign.ts";
import { auditLedger, Ledger, runLoad } from "./load.ts";
import { seeded } from "../harness/random.ts";
import { send, type Call } from "../harness/processes/send.ts";
import { startServer, type Running } from "../harness/processes/server.ts";
import { makeWorld, type World } from "../harness/instances/world.ts";

const CLIENTS = 16;
/** Lifts budgets and throttles, which are not under test. */
export const ENV = { KEYRACK_INGEST_EVENTS_PER_MINUTE: "100000000", KEYRACK_THROTTLE: "off" };

/** Calls the server that is current at the time of the call. */
export function callOf(at: () => Running): Call {
  return (bearer, route, body, options) => send(at().ready.url, bearer, route, body, options);
}

export async function worldOn(server: Running, slug: string): Promise<World> {
  const bootstrap = readFileSync(String(server.ready.bootstrap_token_file), "utf8").trim();
  return makeWorld(
    callOf(() => server),
    bootstrap,
    slug,
  );
}

/** Checks a server after a crash: equal to the ledger, a chain that verifies, an intact file. */
export async function auditServer(
  call: Call,
  world: World,
  ledger: Ledger,
  { scratch, seed }: Pick<RunOptions, "scratch" | "seed">,
  tally: Tally,
): Promise<void> {
  const raw = await openRaw(scratch.target);
  try {
    const { lost, wrong, records } = await auditLedger(raw, world, ledger);
    for (const what of [...lost.map((text) => `LOST ${text}`), ...wrong]) tally.failed(seed, what);
    tally.count("lost", lost.length);
    tally.figures.records = records;
    tally.figures.acknowledged = ledger.acknowledged;
    if (scratch.target.kind === "sqlite") {
      const [check] = await raw.all("pragma integrity_check");
      if (check?.integrity_check !== "ok") tally.failed(seed, `integrity_check: ${String(check?.integrity_check)}`);
    }
  } finally {
    await raw.close();
  }
  const { status, body } = await call(world.key, "GET /v1/audit_logs/chain");
  // A request has 30 seconds, too short for a chain of hours: that one is verified offline.
  const chain = status === 503 ? await verifyOutside(scratch, world) : (body as ChainCheck);
  if (chain.reason !== null) tally.failed(seed, `the chain breaks at ${chain.broken_seq}: ${chain.reason}`);
}

async function verifyOutside({ target }: RunOptions["scratch"], { workspace_id }: World): Promise<ChainCheck> {
  const source = await openSource(target);
  try {
    return await verifyStoredChain(source, workspace_id, []);
  } finally {
    await source.close();
  }
}

export const crash: Campaign = {
  name: "crash",
  promise: "P1, P2, P3",
  claim: "kill -9 under load loses nothing that was acknowledged and leaves nothing half done.",
  rounds: 1_000,
  round: "kill",
  backends: ["sqlite", "postgres"],
  async run(options, tally) {
    const { scratch } = options;
    const ledger = new Ledger();
    let server = await startServer(scratch.args, ENV);
    const call = callOf(() => server);
    try {
      const world = await worldOn(server, "crash");
      for (const seed of rounds(options, tally)) {
        const stop = new AbortController();
        const before = ledger.acknowledged;
        const firstResponse = async (): Promise<void> => {
          while (ledger.acknowledged === before && !stop.signal.aborted) await sleep(5);
        };
        const load = runLoad({ call, world, ledger, seed, clients: CLIENTS }, stop.signal);
        // On a busy machine it may take longer than the time until the kill.
        await Promise.race([load, firstResponse()]);
        await sleep(seeded(seed).int(20, 600));
        await server.end("SIGKILL");
        stop.abort();
        await load;
        server = await startServer(scratch.args, ENV);
        tally.most("slowest start ms", server.readyMs);
        await auditServer(call, world, ledger, { scratch, seed }, tally);
        if (seed % 50 === 0) options.print(`seed ${seed}: ${ledger.acknowledged} acknowledged`);
      }
    } finally {
      await server.end("SIGTERM");
    }
  },
};
