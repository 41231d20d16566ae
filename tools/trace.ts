// npm run trace: lists the files of src that run during one request, and during one verify(). The walks in
// docs/architecture.md are written from this list. With --no-fast-lane requests go through h3 alone.
// Counts by V8's precise coverage. Each request runs several times, and only the files that ran every time are listed,
// or background jobs would appear too. Code that runs in worker threads, or only while a module loads, is not seen.
import { Session } from "node:inspector/promises";
import { join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { withScratch } from "../harness/databases/scratch.ts";
import { startInstance } from "../src/server/start.ts";
import { seedInstance } from "../src/server/seed.ts";
import { loadSettings } from "../src/config/load.ts";
import { silentLog } from "../src/platform/log.ts";
import { createKeyrack } from "../src/sdk/index.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const SRC = new URL("../src/", import.meta.url).href;
const RUNS = 3;
const QUIET_MS = 700;

const session = new Session();

/** The files in which a function has been called since the last call of this. */
async function filesRun(): Promise<Set<string>> {
  const { result } = await session.post("Profiler.takePreciseCoverage");
  const ran = result.filter(
    ({ url, functions }) => url.startsWith(SRC) && functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0),
  );
  return new Set(ran.map(({ url }) => relative(root, fileURLToPath(url))));
}

async function trace(name: string, work: () => unknown): Promise<void> {
  let files: Set<string> | undefined;
  for (let run = 0; run < RUNS; run++) {
    await sleep(QUIET_MS);
    await filesRun();
    await work();
    const ran = await filesRun();
    files = new Set([...ran].filter((file) => files?.has(file) ?? true));
  }
  const list = [...(files ?? [])].toSorted();
  console.log(`${name}: ${list.length} files\n${list.map((file) => `  ${file}`).join("\n")}\n`);
}

async function traceAll(dir: string): Promise<void> {
  const fast_lane = process.argv.includes("--no-fast-lane") ? "off" : "on";
  const { settings } = loadSettings({ env: {}, flags: { data_dir: dir, port: "0", fast_lane, backup_every: "off" } });
  const app = await startInstance({ settings, log: silentLog });
  const { secret_key, project_id, tenant_id } = await seedInstance(app.services);
  const call = async (path: string, init: RequestInit = {}): Promise<string> => {
    const headers = { authorization: `Bearer ${secret_key}`, "content-type": "application/json", ...init.headers };
    return (await fetch(app.url + path, { ...init, headers })).text();
  };
  const body = JSON.stringify({ project_id, tenant_id, env: "live", scopes: ["orders:read"] });
  const mint = (key: string): Promise<string> =>
    call("/v1/keys", { method: "POST", body, headers: { "idempotency-key": key } });
  const poll = (since: number): Promise<string> =>
    call(`/v1/policy/delta?project_id=${project_id}&node=trace&since=${since}`);
  const { key } = JSON.parse(await mint("first")) as { key: string };
  await trace("POST /v1/keys with an Idempotency-Key", () => mint(crypto.randomUUID()));
  await trace("POST /v1/keys, an idempotency replay", () => mint("first"));
  const { version } = JSON.parse(await poll(1)) as { version: number };
  let since = version;
  await trace("GET /v1/policy/delta, changes", () => poll(--since));
  await poll(version);
  await trace("GET /v1/policy/delta, unchanged", () => poll(version));
  const keyrack = createKeyrack({ url: app.url, secretKey: secret_key, projectId: project_id });
  await keyrack.ready();
  await trace("verify()", () => keyrack.verify(key, { scopes: ["orders:read"] }));
  await keyrack.close();
  await app.stop();
}

session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
await withScratch("sqlite", ({ dir }) => traceAll(join(dir, "data")));
session.disconnect();
