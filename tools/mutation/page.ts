// The figures and survivors of docs/mutation.md: merges a run into the page and keeps the judgements of survivors.
import { AREAS, sourcesOf } from "./areas.ts";
import type { Mutant } from "./mutants.ts";

export type Tried = { area: string; mutant: Mutant; killed: boolean };

const [FROM, TO] = ["<!-- figures: written by npm run mutate, do not edit -->", "<!-- end of figures -->"];

const oneLine = (text: string): string => text.replace(/\s+/g, " ").slice(0, 80);

export function nameOf({ file, line, was, text }: Mutant): string {
  return `${file}:${line} \`${oneLine(was)}\` → \`${oneLine(text)}\``;
}

/** The judgement of each survivor. The same mutant on another line is a new one and must be judged again. */
function judgementsIn(page: string): Map<string, string> {
  const rows = [...page.matchAll(/^\| (src\/\S+ .*?) \| (.*) \|$/gm)];
  return new Map(rows.map(([, name = "", judged = ""]) => [name, judged]));
}

type Row = { area: string; tried: number; killed: number; sample: string };

/** The areas' rows of an earlier run; an area that was tried again gets a new row. */
function rowsIn(page: string): Row[] {
  const rows = [...page.matchAll(/^\| (\w+) \| (\d+) \| (\d+) \|.*\| (.*) \|$/gm)];
  return rows.map(([, area = "", tried, killed, sample = ""]) => {
    return { area, tried: Number(tried), killed: Number(killed), sample };
  });
}

/** The share of all mutants, and of those that a test could detect: a survivor judged equal is no gap. */
function formatRow({ area, tried, killed, sample }: Row, equal: number): string {
  const share = (of: number): string => `${((killed / of) * 100).toFixed(1)} %`;
  return `| ${area} | ${tried} | ${killed} | ${share(tried)} | ${equal} | ${share(tried - equal)} | ${sample} |`;
}

const areaOf = (file: string): string => AREAS.find((area) => sourcesOf(area).includes(file))?.name ?? "";

export function updatePage(page: string, all: readonly Tried[], sampleOf: (area: string) => string): string {
  const judged = judgementsIn(page);
  const fresh = Object.entries(Object.groupBy(all, (one) => one.area)).map(([area, tried = []]): Row => {
    return { area, tried: tried.length, killed: tried.filter((one) => one.killed).length, sample: sampleOf(area) };
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
    sample: "",
  });
  const body = [
    "| Area | Mutants | Killed | | Judged equal | Killed of the others | Which |",
    "| --- | --- | --- | --- | --- | --- | --- |",
    ...rows.map((row) => formatRow(row, equals.filter((area) => area === row.area).length)),
    formatRow(sum, equals.length),
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
