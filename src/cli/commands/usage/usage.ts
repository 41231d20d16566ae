// `keyrack usage`: the generated commands, with a series as a table and, on a terminal, a sparkline for each group, and
// the export as a stream.
import { Writable } from "node:stream";
import type { Command } from "commander";
import type { RouteOutput } from "../../../client.ts";
import { addApiCommands } from "../../api/generated.ts";
import { buildRequest, sendRequest, type Run } from "../../api/send.ts";
import { download } from "../../api/request.ts";
import { requireBearer, resolveTarget } from "../../api/target.ts";
import { cell } from "../../ui/format.ts";
import { dim, minute, print, printResult, table } from "../../ui/output.ts";
import { openReplaced, type ReplacedFile } from "../../ui/replaced-file.ts";
import { terminalLines } from "../../ui/terminal-lines.ts";

type Series = RouteOutput<"GET /v1/usage/series">;
type Points = Series["total"];

const BARS = "▁▂▃▄▅▆▇█";
const SPARKLINE_MAX = 60;

/** One character per bucket, or per few buckets if there are many. */
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

function fileOutput(file: ReplacedFile, written: (bytes: number) => void): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      try {
        file.append(chunk);
        written(chunk.length);
        done();
      } catch (error) {
        done(error as Error);
      }
    },
  });
}

const runExport: Run = async (spec, args, options) => {
  const file = options.out as string | undefined;
  const target = requireBearer(resolveTarget(options));
  const message = buildRequest(spec, args, options);
  if (file === undefined) return download(target, message, process.stdout.isTTY ? terminalLines() : process.stdout);
  const out = openReplaced(file);
  let bytes = 0;
  try {
    await download(
      target,
      message,
      fileOutput(out, (count) => (bytes += count)),
    );
    out.finish();
  } finally {
    out.close();
  }
  const json = { object: "usage_export", out: file, bytes };
  printResult(options, { json, quiet: file, human: `Exported usage to ${file}.` });
};

export function addTo(program: Command): void {
  addApiCommands(program, "usage", {
    series: { run: runSeries },
    export: {
      run: runExport,
      flags: (command) => command.option("--out <file>", "file to write, instead of standard output"),
    },
  });
}
