// Writes the shares table into docs/isolation.md, between its two marks.
import { tmpdir } from "node:os";
import { loadSettings } from "../src/config/load.ts";
import { limitsOf, sharesTable, type Share } from "../src/fairness/shares.ts";

const MARKED = /(?<=<!-- shares: npm run docs -->\n\n)[^]*?(?=\n\n<!-- end of shares -->)/;
const GIB = 1024 ** 3;
const MIB = 1024 ** 2;

const SHOWN = { use: "", refusals: " (metrics: refusals only)", nothing: " (no metrics)" };

const { settings } = loadSettings({ env: {}, cwd: tmpdir() });

function amount(n: number, what: string): string {
  if (!what.startsWith("Bytes ")) return n.toLocaleString("en");
  return n >= GIB ? `${n / GIB} GiB` : `${n / MIB} MiB`;
}

/** By default settings. */
function boundOf(row: Share): string {
  const { what, boundNote } = row;
  const { bound, share, shareOf } = limitsOf(row, settings);
  const total = Number.isFinite(bound) ? amount(bound, what) : "–";
  const each = Number.isFinite(share) ? ` · ${amount(share, what)}${shareOf === "account" ? " an account" : ""}` : "";
  const isLimited = Number.isFinite(bound) || Number.isFinite(share);
  if (!isLimited) return boundNote ?? "–";
  return `${total}${each}${boundNote ? `; ${boundNote}` : ""}`;
}

function rowOf([name, share]: [string, Share]): string {
  const names = [share.setting ?? []].flat().map((setting) => `\`${setting}\``);
  const what = share.what + SHOWN[share.shows ?? "use"];
  const cells = [`\`${name}\``, what, share.owners.join(", "), boundOf(share), share.atBound];
  return `| ${[...cells, names.join(", ") || "–"].join(" | ")} |`;
}

export function withSharesTable(page: string): string {
  const rows = (Object.entries(sharesTable) as [string, Share][]).map(rowOf);
  const heading = "| resource | what | owner | bound · share | at the bound | setting |";
  return page.replace(MARKED, [heading, "|---|---|---|---|---|---|", ...rows].join("\n").replaceAll("$", "$$$$"));
}
