// `keyrack usage`: the generated commands, with a series as a table and, on a terminal, a sparkline for each group.
import type { Command } from "commander";
import { addApiCommands, buildRequest, sendRequest, type Extension, type Run } from "../api/generated.ts";
import { cell } from "../ui/format.ts";
import { dim, minute, print, table } from "../ui/output.ts";

type Points = {
  requests: number[];
  errors: number[];
  units: number[];
  total: { requests: number; errors: number; units: number };
};
type Series = {
  group_by: string;
  as_of: string;
  overflow: boolean;
  buckets: string[];
  series: (Points & { group: string | null; label: string | null })[];
  other: Points | null;
  total: Points;
};

const BARS = "▁▂▃▄▅▆▇█";
const SPARKLINE_MAX = 60;

/** One character per bucket, or per few buckets where there are many. */
export function sparkline(values: readonly number[]): string {
  const width = Math.ceil(values.length / SPARKLINE_MAX);
  const sums: number[] = [];
  for (const [i, value] of values.entries()) {
    const at = Math.floor(i / width);
    sums[at] = (sums[at] ?? 0) + value;
  }
  const max = Math.max(1, ...sums);
  return sums.map((value) => BARS[Math.ceil((value / max) * (BARS.length - 1))]).join("");
}

const counts = ({ requests, errors, units }: Points["total"]): string[] => [requests, errors, units].map(String);

function groupRows({ series, other, total, group_by }: Series, isTerminal: boolean): string[][] {
  const named: [string, Points][] = series.map((line) => [line.label === null ? "(none)" : cell(line.label), line]);
  const rest: [string, Points][] = other ? [["(other)", other]] : [];
  const rows = [...named, ...rest, ["(total)", total] as [string, Points]];
  const head = [group_by.toUpperCase(), "REQUESTS", "ERRORS", "UNITS", ...(isTerminal ? [""] : [])];
  return [
    head,
    ...rows.map(([name, points]) => [
      name,
      ...counts(points.total),
      ...(isTerminal ? [sparkline(points.requests)] : []),
    ]),
  ];
}

function bucketRows({ buckets, total }: Series): string[][] {
  const rows = buckets.map((start, i) => [
    minute(start),
    ...[total.requests, total.errors, total.units].map((values) => String(values[i])),
  ]);
  return [["BUCKET", "REQUESTS", "ERRORS", "UNITS"], ...rows, ["(total)", ...counts(total.total)]];
}

/** Without groups: a line for each bucket. */
export function seriesText(series: Series, isTerminal: boolean): string {
  const isPlain = series.group_by === "none";
  const [head = "", ...lines] = table(isPlain ? bucketRows(series) : groupRows(series, isTerminal)).split("\n");
  const spark = isPlain && isTerminal ? [sparkline(series.total.requests)] : [];
  const notes = [`as of ${series.as_of}`, ...(series.overflow ? ["some groups were counted together"] : [])];
  return [dim(head), ...lines, ...spark, dim(notes.join("; "))].join("\n");
}

const runSeries: Run = async (spec, args, options) => {
  const { text } = await sendRequest(buildRequest(spec, args, options), options);
  if (options.json) return print(text.trimEnd());
  const series = JSON.parse(text) as Series;
  if (options.quiet) return print(String(series.total.total.requests));
  print(seriesText(series, process.stdout.isTTY));
};

const series: Extension = {
  run: runSeries,
  examples: [
    "keyrack usage series --bucket day --group-by tenant --time-zone Europe/Berlin",
    "keyrack usage series --group-by outcome --json",
  ],
};

export function addUsageCommands(program: Command): void {
  addApiCommands(program, "usage", { series });
}
