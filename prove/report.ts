// Formats a report as a table, and as a row of docs/reliability.md.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Report } from "./campaign.ts";

const PAGE = fileURLToPath(new URL("../docs/reliability.md", import.meta.url));
const FROM = "<!-- figures: written by npm run prove, do not edit -->";
const TO = "<!-- end of figures -->";

const resultOf = ({ failures, skipped }: Report): string =>
  skipped !== undefined ? "skipped" : failures.length === 0 ? "held" : `**${failures.length} failures**`;

const number = (value: number | string): string => (typeof value === "number" ? value.toLocaleString("en-US") : value);

export function tableOf(report: Report): string {
  const { campaign, promise, backend, seed, rounds, seconds, figures, failures, skipped } = report;
  const lines: [string, string][] = [
    ["campaign", `${campaign} on ${backend} (${promise})`],
    ["result", skipped !== undefined ? `SKIPPED: ${skipped}` : resultOf(report).replaceAll("*", "")],
    ["rounds", `${number(rounds)} from seed ${seed} in ${seconds} s`],
    ...Object.entries(figures).map(([name, value]): [string, string] => [name, number(value)]),
  ];
  const wide = Math.max(...lines.map(([name]) => name.length));
  const table = lines.map(([name, value]) => `  ${name.padEnd(wide)}  ${value}`);
  const replay = (seed: number): string =>
    `npm run prove -- ${campaign} --backend ${backend} --rounds 1 --seed ${seed}`;
  const failed = failures.map(({ seed, what }) => `  FAILED ${what}\n    replay: ${replay(seed)}`);
  return [...table, ...failed].join("\n");
}

function rowOf(report: Report): string {
  const { campaign, promise, backend, seed, rounds, date, figures } = report;
  const summary = Object.entries(figures).map(([name, value]) => `${name}: ${number(value)}`);
  const cells = [campaign, backend, promise, resultOf(report), number(rounds), String(seed), date, summary.join("; ")];
  return `| ${cells.map((cell) => cell.replaceAll("|", "/")).join(" | ")} |`;
}

/** Replaces the row of the same campaign and backend in the page. */
export function withReport(page: string, report: Report): string {
  const [from, to] = [page.indexOf(FROM), page.indexOf(TO)];
  if (from < 0 || to < from) throw new Error("docs/reliability.md has lost its markers");
  const table = page
    .slice(from + FROM.length, to)
    .trim()
    .split("\n");
  const [head = "", line = "", ...rows] = table;
  const same = (row: string): boolean => row.startsWith(`| ${report.campaign} | ${report.backend} |`);
  const kept = [...rows.filter((row) => !same(row)), rowOf(report)].toSorted();
  return `${page.slice(0, from)}${FROM}\n${[head, line, ...kept].join("\n")}\n${page.slice(to)}`;
}

export function publish(report: Report): void {
  writeFileSync(PAGE, withReport(readFileSync(PAGE, "utf8"), report));
}
