// npm run test:times [-- --strict]: the slowest files of the last test run, and what is over budget. With --strict the
// exit code is 1 if anything is; without, never, because machines are shared.
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { TestTimes } from "../harness/setup/times-reporter.ts";

const SHOWN = 20;
/** On two idle cores, with every service present. */
const BUDGET = { seconds: 240, cpu_seconds: 460, file_cpu_seconds: 15 };

function overBudget({ seconds, cpu_seconds, files }: TestTimes): string[] {
  const slow = files
    .filter((file) => file.cpu_seconds > BUDGET.file_cpu_seconds)
    .map(({ file, cpu_seconds: used }) => `${file}: ${used} s of CPU, budget ${BUDGET.file_cpu_seconds}`);
  const large = files.flatMap(({ file, large_values = [] }) =>
    large_values.map(
      (test) => `${file}: a large value in a matcher of "${test}"; compare a length, a hash or a boolean`,
    ),
  );
  return [
    ...slow,
    ...large,
    ...(seconds > BUDGET.seconds ? [`the run: ${seconds} s, budget ${BUDGET.seconds}`] : []),
    ...(cpu_seconds > BUDGET.cpu_seconds ? [`the run: ${cpu_seconds} s of CPU, budget ${BUDGET.cpu_seconds}`] : []),
  ];
}

function tableOf({ seconds, cpu_seconds, tests, files }: TestTimes): string {
  const row = (used: number, took: number, name: string): string =>
    `${used.toFixed(2).padStart(9)}${took.toFixed(2).padStart(9)}  ${name}`;
  return [
    `${"CPU s".padStart(9)}${"s".padStart(9)}`,
    ...files.slice(0, SHOWN).map((each) => row(each.cpu_seconds, each.seconds, each.file)),
    row(cpu_seconds, seconds, `the run: ${tests} tests in ${files.length} files`),
  ].join("\n");
}

function main(): void {
  const path = fileURLToPath(new URL("../dist/test-times.json", import.meta.url));
  if (!existsSync(path)) throw new Error("dist/test-times.json is missing: npm test writes it");
  const times = JSON.parse(readFileSync(path, "utf8")) as TestTimes;
  console.log(tableOf(times));
  const over = overBudget(times);
  for (const line of over) console.log(`OVER BUDGET: ${line}`);
  if (over.length > 0 && process.argv.includes("--strict")) process.exitCode = 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();
