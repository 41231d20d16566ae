// npm run mutate -- [--seed S] [--sample N] [--area A] [--write] [--tally]
// Mutation testing of what must not be wrong: tells the code small lies and counts how many the tests notice.
// --sample draws that many mutants an area by the seed; without it all are tried. --write puts the figures and the
// survivors into docs/mutation.md; what is written there about a survivor is kept. --tally draws nothing and only counts
// again, after survivors have been judged: a judgement that begins with "equal" says that no test can tell.
import { fork, type ChildProcess } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { seeded } from "../harness/random.ts";
import { mutantsOf, type Mutant } from "./mutants.ts";
import type { Order, Verdict } from "./mutate-runner.ts";

type Area = { name: string; files: string[]; tests: string[] };

const area = (name: string, files: string[], tests: string[]): Area => ({
  name,
  files: files.map((file) => `src/${file}.ts`),
  tests: tests.map((test) => `test/${test}.test.ts`),
});
const kernel = (name: string, ...more: string[]): Area =>
  area("kernel", [`kernel/${name}`], [`kernel/${name}`, ...more]);
const limiter = (name: string, ...tests: string[]): Area =>
  area("limiter", [name], [...tests, ...LIMITER.filter((test) => !tests.includes(test))]);
const LIMITER = [
  "counter/contract",
  "counter/bounds",
  "ratelimit/memory/rows",
  "ratelimit/memory/saved-counter",
  "ratelimit/memory/leases",
];

/** What is lied to, and the tests that should notice: those that know it best first, the slow ones last. */
const AREAS: Area[] = [
  area("auth", ["http/access"], ["http/access", "http/matrix"]),
  area("auth", ["domain/auth/credential-cache"], ["http/hot-auth"]),
  area(
    "auth",
    ["domain/auth/credentials"],
    ["domain/auth/credentials", "http/sessions", "http/resources", "http/matrix", "http/embed-tokens"],
  ),
  area("auth", ["domain/core/actor"], ["domain/core/actor", "http/resources"]),
  limiter("kernel/ratelimit/window", "kernel/ratelimit/window"),
  limiter("ratelimit/memory/rows", "ratelimit/memory/rows"),
  limiter("ratelimit/memory/saved-counter", "ratelimit/memory/saved-counter"),
  limiter("ratelimit/memory/dirty-rows", "ratelimit/memory/saved-counter"),
  limiter("ratelimit/memory/counter"),
  limiter("ratelimit/memory/leases"),
  limiter("ratelimit/memory/row-index"),
  limiter("ratelimit/memory/rule-index"),
  area("idempotency", ["domain/limits/idempotency-replays"], ["http/kept-answers"]),
  area(
    "idempotency",
    ["domain/limits/idempotency", "store/queries/idempotency", "kernel/idempotency"],
    ["http/idempotency", "domain/idempotency-model"],
  ),
  area("audit", ["kernel/audit/chain"], ["kernel/audit/chain"]),
  area("audit", ["kernel/crypto/merkle"], ["kernel/crypto/merkle"]),
  area("audit", ["kernel/crypto/signed-note"], ["kernel/crypto/signed-note"]),
  area("audit", ["store/offline/verify"], ["store/offline/verify", "prove/verify"]),
  area(
    "audit",
    ["store/engine/audit-ledger"],
    ["store/engine/audit-ledger", "store/engine/group-commit", "store/engine/rollback", "domain/audit/audit"],
  ),
  area("audit", ["domain/audit/checkpoints"], ["domain/audit/checkpoints", "domain/audit/audit"]),
  area("audit", ["domain/audit/audit", "store/queries/audit"], ["domain/audit/audit", "domain/audit/checkpoints"]),
  area("feed", ["domain/policy/page-cache"], ["domain/policy/page-cache", "http/policy"]),
  area(
    "feed",
    ["store/engine/policy-versions"],
    ["store/engine/policy-versions", "store/engine/group-commit", "store/engine/rollback", "http/policy"],
  ),
  area("feed", ["domain/policy/feed"], ["domain/policy/feed", "http/policy-waiting", "http/policy"]),
  area(
    "feed",
    ["domain/policy/policy", "domain/policy/cursor"],
    ["http/policy", "http/policy-waiting", "domain/policy/policy"],
  ),
  kernel("keyformat"),
  kernel("canonical", "kernel/audit/chain"),
  kernel("timestamps"),
  kernel("ids"),
  kernel("bytes"),
  kernel("crc32"),
  kernel("sha256"),
  kernel("tenants", "sdk/policy"),
  area(
    "kernel",
    ["policy", "policyload", "keytable", "fused", "intern", "recent"].map((n) => `kernel/${n}`),
    ["fused", "keytable", "policy", "verify", "feed"].map((n) => `sdk/${n}`),
  ),
];

const at = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));
const PAGE = at("docs/mutation.md");
const [FROM, TO] = ["<!-- figures: written by npm run mutate, do not edit -->", "<!-- end of figures -->"];

/** Processor seconds that a group of processes has used, the ended ones of its leader included; 0 where /proc is not. */
function processorSeconds(group: number): number {
  if (!existsSync("/proc")) return 0;
  let ticks = 0;
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      // The name in brackets may hold blanks; the numbers behind it begin with the third field, the state.
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)!.split(" ").map(Number);
      if (fields[2] !== group) continue;
      ticks += fields[11]! + fields[12]! + (Number(pid) === group ? fields[13]! + fields[14]! : 0);
    } catch {
      // It has ended since.
    }
  }
  return ticks / 100;
}

type Bounds = { seconds: number; processorSeconds: number };

/** A warm runner that is replaced when a mutant never returns. */
class Runner {
  #child: ChildProcess | undefined;
  /** What the last order used of the processor. */
  used = 0;

  /** Null when it took the process down, or more than it may: an endless loop uses the processor, whoever else does. */
  async run(order: Order, bounds: Bounds): Promise<Verdict | null> {
    const child = (this.#child ??= await this.#start());
    const [group, started] = [child.pid!, performance.now()];
    const before = processorSeconds(group);
    let timer: NodeJS.Timeout | undefined;
    const verdict = await new Promise<Verdict | null>((resolve) => {
      child.once("message", (said) => resolve(said as Verdict));
      child.once("exit", () => resolve(null));
      timer = setInterval(() => {
        this.used = processorSeconds(group) - before;
        const seconds = (performance.now() - started) / 1000;
        if (this.used > bounds.processorSeconds || seconds > bounds.seconds) resolve(null);
      }, 500);
      child.send(order);
    });
    clearInterval(timer);
    this.used = processorSeconds(group) - before;
    child.removeAllListeners();
    if (verdict === null) this.stop();
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

/** What each test uses of the processor when nothing is lied to. */
const truth = new Map<string, number>();

async function learnTruth(runner: Runner, test: string): Promise<void> {
  const verdict = await runner.run({ mutant: null, test }, { seconds: 900, processorSeconds: 900 });
  if (verdict?.killed !== false) throw new Error(`${test} fails without any mutant`);
  truth.set(test, runner.used);
}

/** The test that notices, or null. A mutant that never comes back is noticed, too: the bounds are far beyond the truth. */
async function killerOf(runner: Runner, mutant: Mutant, tests: readonly string[]): Promise<string | null> {
  for (const test of tests) {
    if (!truth.has(test)) await learnTruth(runner, test);
    const verdict = await runner.run({ mutant, test }, { seconds: 300, processorSeconds: truth.get(test)! * 3 + 4 });
    if (verdict === null) return `${test}, which never ended`;
    if (verdict.killed) return test;
  }
  return null;
}

async function tryArea(runner: Runner, area: Area, mutants: readonly Mutant[]): Promise<Tried[]> {
  const tried: Tried[] = [];
  for (const mutant of mutants) {
    const by = await killerOf(runner, mutant, area.tests);
    tried.push({ area: area.name, mutant, killed: by !== null });
    console.error(`${by === null ? "SURVIVED" : `killed by ${by}`}  ${nameOf(mutant)}`);
  }
  return tried;
}

const oneLine = (text: string): string => text.replace(/\s+/g, " ").slice(0, 80);

function nameOf({ file, line, was, text }: Mutant): string {
  return `${file}:${line} \`${oneLine(was)}\` → \`${oneLine(text)}\``;
}

/** What somebody wrote about a survivor. On another line the same lie is another one, and has to be judged again. */
function judgementsIn(page: string): Map<string, string> {
  const rows = [...page.matchAll(/^\| (src\/\S+ .*?) \| (.*) \|$/gm)];
  return new Map(rows.map(([, name = "", judged = ""]) => [name, judged]));
}

type Row = { area: string; tried: number; killed: number; told: string };

/** The areas' lines of an earlier run; an area that is tried again has its line replaced. */
function rowsIn(page: string): Row[] {
  const rows = [...page.matchAll(/^\| (\w+) \| (\d+) \| (\d+) \|.*\| (.*) \|$/gm)];
  return rows.map(([, area = "", tried, killed, told = ""]) => {
    return { area, tried: Number(tried), killed: Number(killed), told };
  });
}

/** Raw, and of those that some test could tell: a survivor judged equal is no gap. */
function lineOf({ area, tried, killed, told }: Row, equal: number): string {
  const share = (of: number): string => `${((killed / of) * 100).toFixed(1)} %`;
  return `| ${area} | ${tried} | ${killed} | ${share(tried)} | ${equal} | ${share(tried - equal)} | ${told} |`;
}

const areaOf = (file: string): string => AREAS.find(({ files }) => files.includes(file))?.name ?? "";

function pageOf(page: string, all: readonly Tried[], told: (area: string) => string): string {
  const judged = judgementsIn(page);
  const fresh = Object.entries(Object.groupBy(all, (one) => one.area)).map(([area, tried = []]): Row => {
    return { area, tried: tried.length, killed: tried.filter((one) => one.killed).length, told: told(area) };
  });
  const isFresh = (area: string): boolean => fresh.some((row) => row.area === area);
  const order = [...new Set(AREAS.map(({ name }) => name))];
  const rows = [...rowsIn(page).filter((row) => !isFresh(row.area)), ...fresh].toSorted(
    (a, b) => order.indexOf(a.area) - order.indexOf(b.area),
  );
  const kept = page.split("\n").filter((line) => {
    const file = /^\| (src\/\S+?):\d+ /.exec(line)?.[1];
    return file !== undefined && !isFresh(areaOf(file));
  });
  const survivors = all
    .filter((one) => !one.killed)
    .map(({ mutant }) => {
      const name = nameOf(mutant).replaceAll("|", "\\|");
      return `| ${name} | ${judged.get(name) ?? "not judged yet"} |`;
    });
  const list = [...kept, ...survivors].toSorted();
  const equals = list.flatMap((line) =>
    / \| equal[^|]* \|$/.test(line) ? [areaOf(line.slice(2, line.indexOf(":")))] : [],
  );
  const sum = rows.reduce((a, b) => ({ ...a, tried: a.tried + b.tried, killed: a.killed + b.killed }), {
    area: "**all**",
    tried: 0,
    killed: 0,
    told: "",
  });
  const body = [
    "| Area | Mutants | Killed | | Judged equal | Killed of the others | Which |",
    "| --- | --- | --- | --- | --- | --- | --- |",
    ...rows.map((row) => lineOf(row, equals.filter((area) => area === row.area).length)),
    lineOf(sum, equals.length),
    "",
    "## Survivors",
    "",
    "| Mutant | Judgement |",
    "| --- | --- |",
    ...list,
  ].join("\n");
  const [from, to] = [page.indexOf(FROM), page.indexOf(TO)];
  return `${page.slice(0, from)}${FROM}\n${body}\n${page.slice(to)}`;
}

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    sample: { type: "string" },
    area: { type: "string" },
    write: { type: "boolean", default: false },
    tally: { type: "boolean", default: false },
  },
});
const random = seeded(Number(values.seed));
const runner = new Runner();
const all: Tried[] = [];
const wanted = values.tally ? [] : AREAS.filter(({ name }) => values.area === undefined || name === values.area);
const read = (file: string): Mutant[] => mutantsOf(file, readFileSync(at(file), "utf8"));
const mutantsIn = new Map(wanted.map((area) => [area, area.files.flatMap(read)]));
const total = [...mutantsIn.values()].reduce((sum, mutants) => sum + mutants.length, 0);
const date = new Date().toISOString().slice(0, 10);
const sampled = values.sample === undefined ? "all" : `drawn by seed ${values.seed}`;

function told(area: string): string {
  const peers = [...mutantsIn].filter(([{ name }]) => name === area);
  return `${date}, ${sampled} of ${peers.reduce((sum, [, mutants]) => sum + mutants.length, 0)}`;
}

function publish(): void {
  if (values.write || values.tally) writeFileSync(PAGE, pageOf(readFileSync(PAGE, "utf8"), all, told));
}

for (const [area, mutants] of mutantsIn) {
  const peers = wanted.filter(({ name }) => name === area.name);
  const inArea = peers.reduce((sum, peer) => sum + (mutantsIn.get(peer)?.length ?? 0), 0);
  const share = values.sample === undefined ? 1 : Number(values.sample) / inArea;
  const drawn = mutants.map((mutant) => ({ mutant, lot: random.next() })).toSorted((a, b) => a.lot - b.lot);
  const chosen = drawn.slice(0, Math.ceil(share * mutants.length)).map(({ mutant }) => mutant);
  all.push(...(await tryArea(runner, area, chosen)));
}
publish();
runner.stop();
const killed = all.filter((one) => one.killed).length;
console.log(JSON.stringify({ date, seed: Number(values.seed), total, tried: all.length, killed }, null, 2));
