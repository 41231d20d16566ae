// npm run bench -- NAME… [--write]   Each benchmark measures Keyrack and its peer or limit in the same run and prints
// the ratio. With --write its table replaces the published one (bench/published.ts).
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { PAGES } from "./published.ts";
import { markdown, type Row } from "./report.ts";

const write = process.argv.includes("--write");

/** Each benchmark returns rows, or its own text. */
const benches: Record<string, () => Promise<Row[] | string>> = {
  timing: async () => (await import("./timing.ts")).timing(),
  ingest: async () => (await import("./ingest.ts")).ingest(),
  ratelimit: async () => (await import("./ratelimit.ts")).ratelimit(),
  start: async () => (await import("./start.ts")).start(),
  vendor: async () => (await import("./vendor.ts")).vendor(),
  neighbours: async () => (await import("./neighbours.ts")).neighbours(),
  inside: async () => (await import("./inside.ts")).inside(),
  scale: async () => (await import("./scale.ts")).scale(),
  feed: async () => (await import("./feed.ts")).feed(),
  rules: async () => (await import("./rules.ts")).rules(),
  fleet: async () => (await import("./fleet.ts")).fleet(),
  waiting: async () => (await import("./waiting.ts")).waiting(),
  writers: async () => (await import("./writers.ts")).writers(),
  "scale-out": async () => (await import("./scale-out.ts")).scaleOut(),
  paper: async () => (await import("./paper.ts")).paper(),
  summary: async () => (await import("./summary.ts")).summary(),
  parts: async () => (await import("./parts.ts")).parts(),
  compare: async () => (await import("./compare.ts")).compare(),
  "fast-paths": async () => (await import("./fast-paths.ts")).fastPaths(),
  verify: async () => (await import("./verify.ts")).verify(),
  faults: async () => (await import("./faults.ts")).faults(),
  curves: async () => (await import("./curves.ts")).curves(write),
  lanes: async () => (await import("./lanes.ts")).lanes(),
  limiter: async () => (await import("./limiter.ts")).limiter(),
  insight: async () => (await import("./insight.ts")).insight(),
  plans: async () => (await import("./plans.ts")).plans(),
  million: async () => (await import("./million.ts")).million(),
  searches: async () => (await import("./searches.ts")).searches(),
  dashboard: async () => (await import("./dashboard.ts")).dashboard(),
  install: async () => (await import("./install.ts")).install(),
};
/** Texts that are computed from published figures; `test/house/bench-rows.test.ts` compares them. */
const DERIVED = ["paper", "summary"];

const groups: Record<string, string[]> = {
  machine: ["ratelimit", "feed", "fleet", "ingest", "limiter", "faults"],
  // These need the registry and another checkout, or measure nothing.
  // Those that are computed from the figures of the others come last.
  all: Object.keys(benches)
    .filter((name) => !["install", "compare", "plans"].includes(name))
    .toSorted((a, b) => Number(DERIVED.includes(a)) - Number(DERIVED.includes(b))),
};

/** Those that measure a peer of `peers/`. */
const WITH_PEERS = ["vendor", "limiter", "verify"];

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** The peers are no dependency of the product: they are installed on the first run. */
function installPeers(): void {
  const dir = here("./peers");
  if (existsSync(`${dir}/node_modules`)) return;
  console.error("installing the peers to measure against …");
  const { status } = spawnSync("npm", ["ci", "--ignore-scripts", "--prefix", dir], { stdio: ["ignore", 2, 2] });
  if (status !== 0) throw new Error("the peers could not be installed");
}

function conditions(): string {
  const [load = 0] = loadavg();
  const date = new Date().toISOString().slice(0, 10);
  const cores = cpus().length;
  const busy = load > cores ? " (busy)" : "";
  return `Measured ${date} with Node ${process.versions.node} on ${cores} ${process.arch} cores, load ${load.toFixed(1)} at the end${busy}.`;
}

/** Replaces the table between its two markers. */
function publish(name: string, text: string): void {
  const section = new RegExp(`<!-- bench:${name} -->[\\s\\S]*?<!-- /bench:${name} -->`);
  const page = PAGES.find((file) => section.test(readFileSync(file, "utf8")));
  if (!page) throw new Error(`no document has markers for ${name}`);
  const replaced = readFileSync(page, "utf8").replace(
    section,
    () => `<!-- bench:${name} -->\n${text}\n<!-- /bench:${name} -->`,
  );
  writeFileSync(page, replaced);
}

async function run(name: string): Promise<number> {
  const result = (await benches[name]?.()) ?? [];
  const text = `${DERIVED.includes(name) ? "" : `${conditions()}\n\n`}${typeof result === "string" ? result : markdown(result)}`;
  console.log(`## ${name}\n\n${text}\n`);
  if (write) publish(name, text);
  return Number(process.exitCode ?? 0);
}

/** Each in a process of its own: after another benchmark's code and heap, verify() took 1.5 times as long. */
function runEach(names: string[]): number {
  const flags = write ? ["--write"] : [];
  const shared = mkdtempSync(join(tmpdir(), "keyrack-bench-"));
  try {
    const env = { ...process.env, KEYRACK_BENCH_SHARED: shared };
    const results = names.map((name) => {
      const args = [...process.execArgv, here("./main.ts"), name, ...flags];
      return spawnSync(process.execPath, args, { stdio: "inherit", env }).status;
    });
    return results.every((status) => status === 0) ? 0 : 1;
  } finally {
    rmSync(shared, { recursive: true });
  }
}

const words = process.argv.slice(2);
const names = words.filter((word) => !word.startsWith("-")).flatMap((word) => groups[word] ?? [word]);
if (names.length === 0 || names.some((name) => !(name in benches))) {
  const known = [...Object.keys(benches), ...Object.keys(groups)];
  console.error(`usage: npm run bench -- ${known.join("|")} [--write]`);
  process.exitCode = 2;
} else {
  if (names.some((name) => WITH_PEERS.includes(name))) installPeers();
  const [only = ""] = names;
  process.exitCode = names.length === 1 ? await run(only) : runEach(names);
}
