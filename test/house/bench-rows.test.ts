// Every fast path names the benchmark row that pays for it, and the row exists.
import { describe, expect, it } from "vitest";
import { paper } from "../../bench/paper.ts";
import { publishedLines } from "../../bench/published.ts";
import { ROWS } from "../../bench/rows.ts";
import { summary } from "../../bench/summary.ts";
import { endpoints } from "../../src/api/index.ts";
import { CODE_FOLDERS, filesIn, readText } from "../../harness/repository.ts";

const HOT_MAX = 12;
/** Rows without a published figure. The list only gets shorter: measure a new row when you add it. */
const UNPUBLISHED = ["vendor/mint-previous", "vendor/mint-terms", "parts/refused"];

const sources = CODE_FOLDERS.flatMap((folder) => filesIn(folder, ".ts", ".tsx"));
const published = publishedLines().join("\n");
const cited = (text: string): string[] =>
  [...text.matchAll(/\bbench: ((?:[\w-]+\/[\w-]+(?:, )?)+)/g)].flatMap(([, names = ""]) => names.split(", "));

describe("benchmark rows", () => {
  it("are the only ones that comments cite", () => {
    const unknown = sources.flatMap((file) =>
      cited(readText(file))
        .filter((name) => name !== "" && !(name in ROWS))
        .map((name) => `${file}: bench: ${name}`),
    );
    expect(unknown).toEqual([]);
  });

  it("are cited by every comment that declares a fast path", () => {
    const blocks = (text: string): string[] => text.match(/\/\*\*[\s\S]*?\*\/|(?:^[ \t]*\/\/.*\n)+/gm) ?? [];
    const without = filesIn("src", ".ts").flatMap((file) =>
      blocks(readText(file))
        .filter((block) => /^\W*Fast path\b/.test(block) && !block.includes("bench: "))
        .map((block) => `${file}: ${block.trim().slice(0, 80)}`),
    );
    expect(without).toEqual([]);
  });

  it("that miss their target are explained in docs/performance.md", () => {
    const [, why = ""] = /^## Missed targets and why\n([\s\S]*?)^## /m.exec(readText("docs/performance.md")) ?? [];
    const explained = [...why.matchAll(/`([\w-]+\/[\w-]*)(\*?)`/g)].map(([, name = "", more = ""]) => ({ name, more }));
    const isExplained = (row: string): boolean =>
      explained.some(({ name, more }) => (more ? row.startsWith(name) : row === name));
    const missed = [...published.matchAll(/^\| `([^`]+)` .*\| missed \|$/gm)].map(([, row = ""]) => row);
    expect(missed.filter((row) => !isExplained(row))).toEqual([]);
    const rows = Object.keys(ROWS);
    expect(
      explained.filter(({ name, more }) => !rows.some((row) => (more ? row.startsWith(name) : row === name))),
    ).toEqual([]);
  });

  it("are in a published table, or in the list of those that are not yet, which only gets shorter", () => {
    const rows = new Set([...published.matchAll(/^\| `([\w-]+\/[\w-]+)` \|/gm)].map(([, row = ""]) => row));
    const unpublished = Object.keys(ROWS).filter((row) => !rows.has(row));
    expect(unpublished).toEqual(UNPUBLISHED);
  });

  it("are what the computed tables say (npm run bench -- paper summary --write updates them)", async () => {
    const blockIn = (page: string, name: string): string | undefined =>
      new RegExp(`<!-- bench:${name} -->\\n([^]*?)\\n<!-- /bench:${name} -->`).exec(readText(page))?.[1];
    expect(blockIn("docs/scale.md", "paper")).toBe(await paper());
    expect(blockIn("docs/performance.md", "summary")).toBe(await summary());
  });

  it("belong to a benchmark that npm run bench knows", () => {
    const main = readText("bench/main.ts");
    const benches = new Set(Object.keys(ROWS).map((name) => name.split("/")[0]));
    const unknown = [...benches].filter((name) => !new RegExp(`^  ${name}: async`, "m").test(main));
    expect(unknown).toEqual([]);
  });

  it("are all measured: each name is written by its benchmark", () => {
    const texts = filesIn("bench", ".ts")
      .filter((file) => file !== "bench/rows.ts")
      .map(readText)
      .join("\n");
    const missing = Object.keys(ROWS).filter((name) => {
      const [bench = "", row = ""] = name.split("/");
      const built = row.replace(/1e[456]$/, "${size}").replace(/^(binary|checkout)-/, "${name}-");
      return ![name, `${bench}/${built}`, `${bench}/\${name}`].some((text) => texts.includes(text));
    });
    expect(missing).toEqual([]);
  });

  it(`justify each of at most ${HOT_MAX} endpoints that the fast lane serves, one row each`, () => {
    const rows = endpoints.flatMap(({ hot }) => hot ?? []);
    expect(rows.length).toBeLessThanOrEqual(HOT_MAX);
    expect(new Set(rows).size).toBe(rows.length);
    expect(rows.filter((name) => !(name in ROWS))).toEqual([]);
  });
});
