// Backups taken under load: each is restored and compared with the writes that were acknowledged before it, and the
// delay of writes during a backup is measured.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, type Client } from "../harness/api-client.ts";
import { loadSettings } from "../src/config/load.ts";
import type { SettingName, Settings } from "../src/config/settings.ts";
import type { CreatedBackup } from "../src/backup/create.ts";
import { createLog } from "../src/platform/log.ts";
import { callInstance } from "../src/server/operator-socket/client.ts";
import { restoreOffline } from "../src/server/offline.ts";
import type { Campaign } from "./campaign.ts";
import { withScratchDatabase } from "../harness/databases/scratch.ts";
import { startServer, type Running } from "../harness/processes/server.ts";

const log = createLog({ level: "error" });
const quiet = (): void => {};
const IN_FLIGHT_MAX = 200;

export function settingsFor(dir: string, more: Partial<Record<SettingName, string>> = {}): Settings {
  const flags = { data_dir: dir, port: "0", backup_every: "off", restore_test_every: "off", ...more };
  return loadSettings({ env: {}, flags, cwd: dir }).settings;
}

function percentile(values: readonly number[], p: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * p) / 100))] ?? 0;
}

type BackupReport = {
  backups: number;
  restored: number;
  keys: number;
  writes: number;
  /** Acknowledged while a backup was made. */
  writesMeanwhile: number;
  backupMs: { median: number; max: number };
  restoreMs: { median: number; max: number };
  writeMs: { baselineP50: number; baselineP99: number; duringP50: number; duringP99: number; ratioP99: number };
  problems: string[];
};

type BackupCampaign = {
  backend: string;
  rounds: number;
  /** Keys created before the first backup, so that a backup takes a while. */
  keys: number;
  writesPerSecond: number;
  baselineMs: number;
  print: (line: string) => void;
};

type World = { client: Client; project_id: string; tenant_id: string };

async function setUp({ ready }: Running): Promise<World> {
  const bearer = readFileSync(String(ready.bootstrap_token_file), "utf8").trim();
  const boot = createClient({ url: ready.url, bearer });
  const { secret_key } = await boot.call("POST /v1/workspaces", { body: { name: "Backup", slug: "backup" } });
  const client = createClient({ url: ready.url, bearer: secret_key.key });
  const project = await client.call("POST /v1/projects", { body: { name: "P", slug: "ppp" } });
  const tenant = await client.call("POST /v1/tenants", { body: { external_id: "t" } });
  return { client, project_id: project.id, tenant_id: tenant.id };
}

const mint = ({ client, project_id, tenant_id }: World): Promise<unknown> =>
  client.call("POST /v1/keys", { body: { project_id, tenant_id, env: "live" } });

/** Writes at a fixed rate, however slow the responses are. Latency counts from the planned time. */
class Load {
  acknowledged: number;
  failed = 0;
  readonly #world: World;
  readonly #flying = new Set<Promise<void>>();
  readonly #timer: NodeJS.Timeout;
  #sent = 0;
  #kept: number[] | undefined;

  constructor(world: World, perSecond: number, acknowledged: number) {
    this.#world = world;
    this.acknowledged = acknowledged;
    const started = performance.now();
    this.#timer = setInterval(() => {
      const due = ((performance.now() - started) / 1_000) * perSecond;
      // Bounded, or a machine that is slower than the rate would be given ever more to do.
      while (this.#sent < due && this.#flying.size < IN_FLIGHT_MAX)
        this.#send(started + (this.#sent++ * 1_000) / perSecond);
    }, 2);
  }

  #send(planned: number): void {
    const kept = this.#kept;
    const one = mint(this.#world).then(
      () => {
        this.acknowledged++;
        kept?.push(performance.now() - planned);
      },
      () => void this.failed++,
    );
    const done = one.finally(() => this.#flying.delete(done));
    this.#flying.add(done);
  }

  /** The latencies of requests sent from now on, until the next call. */
  measure(): number[] {
    this.#kept = [];
    return this.#kept;
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#flying);
  }
}

const round = (n: number): number => Math.round(n * 100) / 100;

const spread = (times: number[]) => ({ median: round(percentile(times, 50)), max: round(Math.max(...times)) });

async function backupUnderLoad(want: BackupCampaign): Promise<BackupReport> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-prove-"));
  try {
    return await withScratchDatabase(want.backend, (url) => runUnder(want, dir, url));
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function runUnder(want: BackupCampaign, dir: string, url: string | null): Promise<BackupReport> {
  const data = join(dir, "data");
  const server = await startServer(["--data-dir", data, ...(url ? ["--database-url", url] : [])], {
    KEYRACK_BACKUP_EVERY: "off",
    KEYRACK_THROTTLE: "off",
  });
  const problems: string[] = [];
  const made: { folder: string; atLeast: number; ms: number }[] = [];
  const during: number[] = [];
  let baseline: number[] = [];
  let writes = 0;
  try {
    const world = await setUp(server);
    for (let done = 0; done < want.keys; done += 100)
      await Promise.all(Array.from({ length: Math.min(100, want.keys - done) }, () => mint(world)));
    const load = new Load(world, want.writesPerSecond, want.keys);
    await pause(Math.min(1_000, want.baselineMs)); // warm
    baseline = load.measure();
    await pause(want.baselineMs);
    while (made.length < want.rounds) {
      const atLeast = load.acknowledged;
      const taken = load.measure();
      const started = performance.now();
      const answer = await callInstance(data, "backup.create", {});
      if (!answer) throw new Error("the server's operator socket is not there");
      const { folder } = answer.value as CreatedBackup;
      const ms = performance.now() - started;
      load.measure();
      if (taken.length === 0) continue; // too quick: it was not taken under load
      during.push(...taken);
      made.push({ folder, atLeast, ms });
      want.print(`backup ${made.length}: ${Math.round(ms)} ms, ${taken.length} writes meanwhile`);
    }
    await load.stop();
    writes = load.acknowledged;
    if (load.failed > 0) problems.push(`${load.failed} writes failed`);
  } finally {
    await server.end("SIGTERM");
  }
  const restoreMs: number[] = [];
  for (const each of made) restoreMs.push(await restoreOne(want.backend, dir, each, problems));
  const [baselineP99, duringP99] = [percentile(baseline, 99), percentile(during, 99)];
  return {
    backups: made.length,
    restored: made.length - problems.length,
    keys: want.keys,
    writes,
    writesMeanwhile: during.length,
    backupMs: spread(made.map(({ ms }) => ms)),
    restoreMs: spread(restoreMs),
    writeMs: {
      baselineP50: round(percentile(baseline, 50)),
      baselineP99: round(baselineP99),
      duringP50: round(percentile(during, 50)),
      duringP99: round(duringP99),
      ratioP99: round(duringP99 / baselineP99),
    },
    problems,
  };
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Restores into a separate database and checks checksums, integrity, foreign keys, every chain and acknowledged writes.
 */
async function restoreOne(
  backend: string,
  dir: string,
  { folder, atLeast }: { folder: string; atLeast: number },
  problems: string[],
): Promise<number> {
  const scratch = mkdtempSync(join(dir, "restore-"));
  const started = performance.now();
  try {
    await withScratchDatabase(backend, async (url) => {
      const settings = settingsFor(scratch, {
        master_key_file: join(dir, "data", "master.key"),
        ...(url && { database_url: url }),
      });
      await restoreOffline({ settings, log, backup: folder, force: false, newMasterKey: false, onProgress: quiet });
      const manifest = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")) as {
        rows: { api_keys: number };
      };
      if (manifest.rows.api_keys < atLeast)
        problems.push(`${folder} has ${manifest.rows.api_keys} keys where ${atLeast} had been acknowledged`);
    });
  } catch (error) {
    problems.push(`${folder}: ${(error as Error).message}`);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  return performance.now() - started;
}

export const backupCampaign: Campaign = {
  name: "backup",
  promise: "P7",
  claim: "a backup taken under load restores whole, with every write acknowledged before it, and writes continue",
  rounds: 50,
  round: "backup at 200 writes/s",
  backends: ["sqlite", "postgres"],
  async run({ rounds, backend, seed, print }, tally) {
    const [long, short] = [
      { keys: 5_000, baselineMs: 15_000, writesPerSecond: 200 },
      { keys: 50, baselineMs: 100, writesPerSecond: 50 },
    ];
    const report = await backupUnderLoad({ backend, rounds, ...(rounds > 10 ? long : short), print });
    for (const problem of report.problems) tally.failed(seed, problem);
    const { writeMs, backupMs, restoreMs } = report;
    tally.rounds = report.backups;
    tally.count("restored and verified", report.restored);
    tally.count("writes acknowledged", report.writes);
    tally.count("writes meanwhile", report.writesMeanwhile);
    tally.figures["backup ms, median"] = backupMs.median;
    tally.figures["restore ms, median"] = restoreMs.median;
    tally.figures["write p99 ms without"] = writeMs.baselineP99;
    tally.figures["write p99 ms during"] = writeMs.duringP99;
    tally.figures["p99 ratio"] = writeMs.ratioP99;
  },
};

/** A temporary data dir. */
export async function withDir<T>(work: (dir: string) => Promise<T>): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-prove-"));
  mkdirSync(join(dir, "data"), { mode: 0o700 });
  writeFileSync(join(dir, "data", "master.key"), "11".repeat(32), { mode: 0o600 });
  try {
    return await work(join(dir, "data"));
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
