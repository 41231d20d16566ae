// The pages that `npm run bench -- NAME --write` writes tables into, and the figures in them, for texts that are derived
// from those.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { RowName } from "./rows.ts";

type PublishedRow = { ours: string; peer: string; ratio: string; target: string; verdict: string };

export const PAGES = ["docs/performance.md", "docs/scale.md", "bench/RESULTS.md"].map((path) =>
  fileURLToPath(new URL(`../${path}`, import.meta.url)),
);

export const publishedLines = (): string[] => PAGES.flatMap((page) => readFileSync(page, "utf8").split("\n"));

/** The cells of a row as printed. A missing row is an error: what is derived from it would be wrong. */
export function publishedRow(row: RowName): PublishedRow {
  const line = publishedLines().find((text) => text.startsWith(`| \`${row}\` | `));
  if (line === undefined) throw new Error(`no page has a row ${row}`);
  const [ours = "", peer = "", ratio = "", target = "", verdict = ""] = line.split(/ *\| */).slice(3, -1);
  return { ours, peer, ratio, target, verdict };
}

/** The row of a fleet of this size in the table of `npm run bench -- waiting`. */
export function publishedFleet(nodes: string): string[] {
  const line = publishedLines().find((text) => text.startsWith(`| ${nodes} | `) && text.includes(" µs "));
  if (line === undefined) throw new Error(`no page has figures for ${nodes} waiting nodes`);
  return line.split(/ *\| */).slice(1, -1);
}
