// The rows that docs/performance.md has published, for texts that are derived from them.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { RowName } from "./rows.ts";

type PublishedRow = { ours: string; peer: string; ratio: string; target: string; verdict: string };

export const publishedPage = (name: "performance.md" | "scale.md"): string =>
  readFileSync(fileURLToPath(new URL(`../docs/${name}`, import.meta.url)), "utf8");

/** The cells of a row as printed. A missing row is an error: what is derived from it would be wrong. */
export function publishedRow(page: string, row: RowName): PublishedRow {
  const line = page.split("\n").find((text) => text.startsWith(`| \`${row}\` | `));
  if (line === undefined) throw new Error(`docs/performance.md has no row ${row}`);
  const [ours = "", peer = "", ratio = "", target = "", verdict = ""] = line.split(/ *\| */).slice(3, -1);
  return { ours, peer, ratio, target, verdict };
}

/** The row of a fleet of this size in the table of `npm run bench -- waiting`. */
export function publishedFleet(page: string, nodes: string): string[] {
  const line = page.split("\n").find((text) => text.startsWith(`| ${nodes} | `) && text.includes(" µs "));
  if (line === undefined) throw new Error(`docs/scale.md has no figures for ${nodes} waiting nodes`);
  return line.split(/ *\| */).slice(1, -1);
}
