// npm run mutate -- [--seed S] [--sample N] [--area A] [--write]
// Mutation testing of what must not be wrong: tells the code small lies and counts how many the tests notice.
// --sample draws that many mutants an area by the seed; without it all are tried. --write puts the figures and the
// survivors into docs/mutation.md; what is written there about a survivor is kept.
import { fork, type ChildProcess } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { seeded } from "../prove/random.ts";
import { mutantsOf, type Mutant } from "./mutants.ts";
import type { Order, Verdict } from "./mutate-runner.ts";

type Area = { name: string; files: string[]; tests: string[] };

/** What is lied to, and the tests that should notice, the quickest first. */
const kernel = (name: string, ...tests: string[]): Area => ({
  name: "kernel",
  files: [`src/kernel/${name}.ts`],
  tests: [`test/kernel/${name}.test.ts`, ...tests],
});
const AREAS: Area[] = [
  {
    name: "auth",
    files: ["src/domain/credentials.ts", "src/domain/hot-auth.ts", "src/http/access.ts", "src/domain/actor.ts"],
    tests: ["access", "hot-auth", "resources", "sessions", "members", "matrix", "embed-tokens"].map(
      (n) => `test/http/${n}.test.ts`,
    ),
  },
  {
    name: "limiter",
    files: [
      "src/kernel/window.ts",
      ...["memory", "rules", "slab", "ledger", "lease", "roster", "saved"].map((n) => `src/counter/${n}.ts`),
    ],
    tests: [
      "test/kernel/window.test.ts",
      "test/counter/slab.test.ts",
      "test/counter/contract.test.ts",
      "test/counter/bounds.test.ts",
      "test/counter/saved.test.ts",
      "test/counter/lease.test.ts",
    ],
  },
  {
    name: "idempotency",
    files: [
      "src/kernel/idempotency.ts",
      "src/domain/idempotency.ts",
      "src/store/idempotency.ts",
      "src/domain/kept-answers.ts",
    ],
    tests: ["test/http/kept-answers.test.ts", "test/http/idempotency.test.ts", "test/domain/idempotency-model.test.ts"],
  },
  {
    name: "audit",
    files: ["src/kernel/chain.ts", "src/kernel/merkle.ts", "src/kernel/note.ts"],
    tests: ["test/kernel/chain.test.ts", "test/kernel/merkle.test.ts", "test/kernel/note.test.ts"],
  },
  {
    name: "audit",
    files: [
      "src/domain/audit.ts",
      "src/domain/checkpoints.ts",
      "src/store/ledger.ts",
      "src/store/audit.ts",
      "src/store/verify.ts",
    ],
    tests: [
      "test/domain/audit.test.ts",
      "test/domain/checkpoints.test.ts",
      "test/store/group.test.ts",
      "test/prove/verify.test.ts",
    ],
  },
  {
    name: "feed",
    files: [
      "src/domain/feed.ts",
      "src/domain/policy.ts",
      "src/domain/policy-pages.ts",
      "src/domain/policy-cursor.ts",
      "src/store/versions.ts",
    ],
    tests: [
      "test/domain/policy-pages.test.ts",
      "test/contract/policy-pages.test.ts",
      "test/http/policy.test.ts",
      "test/http/policy-waiting.test.ts",
      "test/domain/policy-convergence.test.ts",
    ],
  },
  kernel("keyformat"),
  kernel("canonical", "test/kernel/chain.test.ts"),
  kernel("timestamps"),
  kernel("ids"),
  kernel("bytes"),
  kernel("crc32"),
  kernel("sha256"),
  {
    name: "kernel",
    files: ["policy", "policyload", "keytable", "tenants", "fused", "intern", "recent"].map(
      (n) => `src/kernel/${n}.ts`,
    ),
    tests: ["fused", "keytable", "policy", "feed", "verify", "limits"].map((n) => `test/sdk/${n}.test.ts`),
  },
];

const at = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));
const PAGE = at("docs/mutation.md");
const [FROM, TO] = ["<!-- figures: written by npm run mutate, do not edit -->", "<!-- end of figures -->"];

/** A warm runner that is replaced when a mutant never returns. */
class Runner {
  #child: ChildProcess | undefined;

  async run(order: Order, withinMs: number): Promise<Verdict> {
    const child = (this.#child ??= await this.#start());
    const said = new Promise<Verdict>((resolve) => {
      child.once("message", (verdict) => resolve(verdict as Verdict));
      child.once("exit", () => resolve({ killed: true, by: "it ended the process" }));
    });
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<Verdict>((resolve) => {
      timer = setTimeout(() => resolve({ killed: true, by: "time ran out" }), withinMs);
    });
    child.send(order);
    const verdict = await Promise.race([said, late]);
    clearTimeout(timer);
    child.removeAllListeners();
    if (verdict.by === "time ran out" || verdict.by === "it ended the process") this.stop();
    return verdict;
  }

  async #start(): Promise<ChildProcess> {
    // A group of its own, so that the test workers end with it.
    const child = fork(at("tools/mutate-runner.ts"), { detached: true, stdio: "ignore" });
    await new Promise((resolve) => child.once("message", resolve));
    return child;
  }

  stop(): void {
    if (this.#child?.pid !== undefined) process.kill(-this.#child.pid, "SIGKILL");
    this.#child = undefined;
  }
}

type Tried = { area: string; mutant: Mutant; killed: boolean };

async function tryArea(runner: Runner, area: Area, mutants: readonly Mutant[]): Promise<Tried[]> {
  const started = performance.now();
  const base = await runner.run({ mutant: null, tests: area.tests }, 600_000);
  if (base.killed) throw new Error(`${area.name}: ${base.by} fails without any mutant`);
  const withinMs = (performance.now() - started) * 3 + 10_000;
  const tried: Tried[] = [];
  for (const mutant of mutants) {
    const { killed, by } = await runner.run({ mutant, tests: area.tests }, withinMs);
    tried.push({ area: area.name, mutant, killed });
    console.error(`${killed ? `killed by ${by}` : "SURVIVED"}  ${nameOf(mutant)}`);
  }
  return tried;
}

const oneLine = (text: string): string => text.replace(/\s+/g, " ").slice(0, 80);

function nameOf({ file, line, was, text }: Mutant): string {
  return `${file}:${line} \`${oneLine(was)}\` → \`${oneLine(text)}\``;
}

/** What somebody wrote about a survivor, by what it is; the line number may have moved. */
function judgementsIn(page: string): Map<string, string> {
  const rows = [...page.matchAll(/^\| (src\/\S+?):\d+ (.*?) \| (.*) \|$/gm)];
  return new Map(rows.map(([, file = "", what = "", judged = ""]) => [`${file} ${what}`, judged]));
}

type Row = { area: string; tried: number; killed: number; told: string };

const rowOf = (area: string, tried: number, killed: number, told: string): Row => ({ area, tried, killed, told });

/** The areas' lines of an earlier run; an area that is tried again has its line replaced. */
function rowsIn(page: string): Row[] {
  const rows = [...page.matchAll(/^\| (\w+) \| (\d+) \| (\d+) \| [\d.]+ % \| (.*) \|$/gm)];
  return rows.map(([, area = "", tried, killed, told = ""]) => rowOf(area, Number(tried), Number(killed), told));
}

const lineOf = ({ area, tried, killed, told }: Row): string =>
  `| ${area} | ${tried} | ${killed} | ${((killed / tried) * 100).toFixed(1)} % | ${told} |`;

function pageOf(page: string, all: readonly Tried[], told: (area: string) => string): string {
  const judged = judgementsIn(page);
  const fresh = Object.entries(Object.groupBy(all, ({ area }) => area)).map(([area, tried = []]) =>
    rowOf(area, tried.length, tried.filter((one) => one.killed).length, told(area)),
  );
  const rows = [...rowsIn(page).filter(({ area }) => !fresh.some((row) => row.area === area)), ...fresh];
  const [tried, killed] = [rows.reduce((n, row) => n + row.tried, 0), rows.reduce((n, row) => n + row.killed, 0)];
  const sum = `| **all** | ${tried} | ${killed} | **${((killed / tried) * 100).toFixed(1)} %** | |`;
  const again = AREAS.filter(({ name }) => fresh.some(({ area }) => area === name)).flatMap(({ files }) => files);
  const kept = page
    .split("\n")
    .filter((line) => line.startsWith("| src/") && !again.some((file) => line.startsWith(`| ${file}:`)));
  const survivors = all
    .filter((one) => !one.killed)
    .map(({ mutant }) => {
      const name = nameOf(mutant).replaceAll("|", "\\|");
      return `| ${name} | ${judged.get(name.replace(/:\d+/, "")) ?? "not judged yet"} |`;
    });
  const head = ["| Area | Mutants | Killed | | Which |", "| --- | --- | --- | --- | --- |"];
  const list = ["## Survivors", "", "| Mutant | Judgement |", "| --- | --- |", ...[...kept, ...survivors].toSorted()];
  const [from, to] = [page.indexOf(FROM), page.indexOf(TO)];
  const body = [...head, ...rows.map(lineOf), sum, "", ...list].join("\n");
  return `${page.slice(0, from)}${FROM}\n${body}\n${page.slice(to)}`;
}

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    sample: { type: "string" },
    area: { type: "string" },
    write: { type: "boolean", default: false },
  },
});
const random = seeded(Number(values.seed));
const runner = new Runner();
const all: Tried[] = [];
const wanted = AREAS.filter(({ name }) => values.area === undefined || name === values.area);
const read = (file: string): Mutant[] => mutantsOf(file, readFileSync(at(file), "utf8"));
const mutantsIn = new Map(wanted.map((area) => [area, area.files.flatMap(read)]));
const total = [...mutantsIn.values()].reduce((sum, mutants) => sum + mutants.length, 0);
const date = new Date().toISOString().slice(0, 10);
const sampled = values.sample === undefined ? "all" : `drawn by seed ${values.seed}`;

function told(area: string): string {
  const peers = [...mutantsIn].filter(([{ name }]) => name === area);
  return `${date}, ${sampled} of ${peers.reduce((sum, [, mutants]) => sum + mutants.length, 0)}`;
}

/** A run that is stopped keeps what it has found so far. */
function publish(): void {
  if (values.write) writeFileSync(PAGE, pageOf(readFileSync(PAGE, "utf8"), all, told));
}

for (const [area, mutants] of mutantsIn) {
  const peers = wanted.filter(({ name }) => name === area.name);
  const inArea = peers.reduce((sum, peer) => sum + (mutantsIn.get(peer)?.length ?? 0), 0);
  const share = values.sample === undefined ? 1 : Number(values.sample) / inArea;
  const drawn = mutants.map((mutant) => ({ mutant, lot: random.next() })).toSorted((a, b) => a.lot - b.lot);
  const chosen = drawn.slice(0, Math.ceil(share * mutants.length)).map(({ mutant }) => mutant);
  all.push(...(await tryArea(runner, area, chosen)));
  publish();
}
runner.stop();
const killed = all.filter((one) => one.killed).length;
console.log(JSON.stringify({ date, seed: Number(values.seed), total, tried: all.length, killed }, null, 2));
