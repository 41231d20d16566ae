// The figures and survivors of docs/mutation.md: merges a run into the page and keeps the judgements of survivors.
import { AREAS, sourcesOf } from "./areas.ts";
import type { Mutant } from "./mutants.ts";

export type Tried = { area: string; mutant: Mutant; killed: boolean };

const [FROM, TO] = ["<!-- figures: written by npm run mutate, do not edit -->", "<!-- end of figures -->"];

const oneLine = (text: string): string => `\`${text.trim().replace(/\s+/g, " ").replaceAll("`", "'").slice(0, 80)}\``;

/** By the code, not by its line number, which the next change above it would make wrong. */
function nameOf({ file, code, was, text }: Mutant): string {
  return `${file} ${oneLine(code)}: ${oneLine(was)} → ${oneLine(text)}`.replaceAll("|", "\\|");
}

/** The judgement of each survivor. The same mutant of other code is a new one and must be judged again. */
function judgementsIn(page: string): Map<string, string> {
  const rows = [...page.matchAll(/^\| (src\/\S+ .*?) \| (.*) \|$/gm)];
  return new Map(rows.map(([, name = "", judged = ""]) => [name, judged]));
}

type Row = { area: string; tried: number; killed: number; sample: string; date: string };

/** The areas' rows of an earlier run; an area that was tried again gets a new row. */
function rowsIn(page: string): Row[] {
  const rows = [...page.matchAll(/^\| (\w+) \| (\d+) \| (\d+) \|.*\| (.*) \| (.*) \|$/gm)];
  return rows.map(([, area = "", tried, killed, sample = "", date = ""]) => {
    return { area, tried: Number(tried), killed: Number(killed), sample, date };
  });
}

/** The share of all mutants, and of those that a test could detect: an equivalent mutant is no gap. */
function formatRow({ area, tried, killed, sample, date }: Row, equivalent: number): string {
  const share = (of: number): string => `${((killed / of) * 100).toFixed(1)} %`;
  return `| ${area} | ${tried} | ${killed} | ${share(tried)} | ${equivalent} | ${share(tried - equivalent)} | ${sample} | ${date} |`;
}

/** The file of a survivor's line. */
const fileIn = (line: string): string | undefined => /^\| (src\/\S+) /.exec(line)?.[1];

const areaOf = (file: string): string => AREAS.find((area) => sourcesOf(area).includes(file))?.name ?? "";

export function updatePage(
  page: string,
  all: readonly Tried[],
  sampleOf: (area: string) => Pick<Row, "sample" | "date">,
): string {
  const judged = judgementsIn(page);
  const fresh = Object.entries(Object.groupBy(all, (one) => one.area)).map(([area, tried = []]): Row => {
    return { area, tried: tried.length, killed: tried.filter((one) => one.killed).length, ...sampleOf(area) };
  });
  const isFresh = (area: string): boolean => fresh.some((row) => row.area === area);
  const order = [...new Set(AREAS.map(({ name }) => name))];
  const rows = [...rowsIn(page).filter((row) => !isFresh(row.area)), ...fresh].toSorted(
    (a, b) => order.indexOf(a.area) - order.indexOf(b.area),
  );
  const kept = page.split("\n").filter((line) => {
    const file = fileIn(line);
    return file !== undefined && !isFresh(areaOf(file));
  });
  const survivors = all
    .filter((one) => !one.killed)
    .map(({ mutant }) => {
      const name = nameOf(mutant);
      return `| ${name} | ${judged.get(name) ?? "not judged yet"} |`;
    });
  const list = [...kept, ...survivors].toSorted();
  const equivalents = list.flatMap((line) =>
    / \| equivalent[^|]* \|$/.test(line) ? [areaOf(fileIn(line) ?? "")] : [],
  );
  const sum = rows.reduce((a, b) => ({ ...a, tried: a.tried + b.tried, killed: a.killed + b.killed }), {
    area: "**all**",
    tried: 0,
    killed: 0,
    sample: "",
    date: "",
  });
  const body = [
    "| Area | Mutants | Killed | | Equivalent | Killed, without equivalent mutants | Sample | Date |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ...rows.map((row) => formatRow(row, equivalents.filter((area) => area === row.area).length)),
    formatRow(sum, equivalents.length),
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
