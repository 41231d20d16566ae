// npm run mutate -- [--seed S] [--sample N] [--area A] [--write] [--tally]
// Mutation testing of critical code: changes it in small ways and counts how many changes the tests detect.
// --sample draws that many mutants per area by the seed; without it all are tried. --write puts the figures and the
// survivors into docs/mutation.md and keeps what is written there about a survivor. --tally runs nothing and only
// counts again after survivors have been judged: a judgement that begins with "equal" says that no test can detect it.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { seeded } from "../harness/random.ts";
import { readText, root } from "../harness/repository.ts";
import { AREAS, sourcesOf, testsOf, type Area } from "./mutation/areas.ts";
import { mutantsOf, type Mutant } from "./mutation/mutants.ts";
import { updatePage, type Tried } from "./mutation/page.ts";
import { Runner } from "./mutation/runner.ts";

const PAGE = join(root, "docs/mutation.md");

/** CPU seconds of each test without a mutant. */
const baseline = new Map<string, number>();

async function measureBaseline(runner: Runner, test: string): Promise<void> {
  const verdict = await runner.run({ mutant: null, test }, { seconds: 900, cpuSeconds: 900 });
  if (verdict?.killed !== false) throw new Error(`${test} fails without any mutant`);
  baseline.set(test, runner.used);
}

/** The test that fails, or null. A mutant that exceeds the bounds, far above the baseline, is detected as well. */
async function killerOf(runner: Runner, mutant: Mutant, tests: readonly string[]): Promise<string | null> {
  for (const test of tests) {
    if (!baseline.has(test)) await measureBaseline(runner, test);
    const verdict = await runner.run({ mutant, test }, { seconds: 300, cpuSeconds: baseline.get(test)! * 3 + 4 });
    if (verdict === null) return `${test}, which never ended`;
    if (verdict.killed) return test;
  }
  return null;
}

async function tryArea(runner: Runner, area: Area, mutants: readonly Mutant[]): Promise<Tried[]> {
  const tried: Tried[] = [];
  const tests = testsOf(area);
  for (const mutant of mutants) {
    const by = await killerOf(runner, mutant, tests);
    tried.push({ area: area.name, mutant, killed: by !== null });
    console.error(
      `${by === null ? "SURVIVED" : `killed by ${by}`}  ${mutant.file}:${mutant.line} ${mutant.was} → ${mutant.text}`,
    );
  }
  return tried;
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
const mutantsIn = new Map(
  wanted.map((area) => [area, sourcesOf(area).flatMap((file) => mutantsOf(file, readText(file)))]),
);
const total = [...mutantsIn.values()].reduce((sum, mutants) => sum + mutants.length, 0);
const date = new Date().toISOString().slice(0, 10);

const countIn = (area: string): number =>
  [...mutantsIn].filter(([{ name }]) => name === area).reduce((sum, [, mutants]) => sum + mutants.length, 0);

for (const [area, mutants] of mutantsIn) {
  const share = values.sample === undefined ? 1 : Number(values.sample) / countIn(area.name);
  const drawn = mutants.map((mutant) => ({ mutant, lot: random.next() })).toSorted((a, b) => a.lot - b.lot);
  const chosen = drawn.slice(0, Math.ceil(share * mutants.length)).map(({ mutant }) => mutant);
  all.push(...(await tryArea(runner, area, chosen)));
}
if (values.write || values.tally) {
  const countTried = (area: string): number => all.filter((one) => one.area === area).length;
  const seed = values.sample === undefined ? "" : `, seed ${values.seed}`;
  const sampleOf = (area: string) => ({ sample: `${countTried(area)} of ${countIn(area)}${seed}`, date });
  writeFileSync(PAGE, updatePage(readFileSync(PAGE, "utf8"), all, sampleOf));
}
runner.stop();
const killed = all.filter((one) => one.killed).length;
console.log(JSON.stringify({ date, seed: Number(values.seed), total, tried: all.length, killed }, null, 2));
