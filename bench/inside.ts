// Where the time of a neighbour's slowest requests goes, measured inside the server: each case of `neighbours`, quiet
// and beside its flood. Three processes share the cores, so the time in which the server's thread was ready and did
// not run is not the server's own.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eachFlood } from "./neighbours.ts";
import { p99 } from "./report.ts";

const PRELOAD = new URL("./servers/inside.mjs", import.meta.url).href;

/** Of one request, in ms: from when it was sent until its response was written, and of that until it was parsed. */
type Entry = { label: string; all: number; unparsed: number; lost: number; collecting: number };

export async function inside(): Promise<string> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-inside-"));
  const file = join(dir, "entries.json");
  try {
    const env = { NODE_OPTIONS: `--import=${PRELOAD}`, KEYRACK_BENCH_INSIDE: file };
    const seen = await eachFlood(env, (name, slice) => `${name}/${slice}`);
    const entries = JSON.parse(readFileSync(file, "utf8")) as Entry[];
    const lines = [
      "| Case | | Client | Server | Without waiting for a core | And without collections | Until parsed |",
      "|---|---|---|---|---|---|---|",
    ];
    for (const { name, ...times } of seen)
      for (const slice of ["quiet", "beside"] as const) {
        const own = entries.filter(({ label }) => label === `${name}/${slice}`);
        const figures = [
          times[slice],
          own.map(({ all }) => all),
          own.map(({ all, lost }) => all - lost),
          own.map(({ all, lost, collecting }) => all - lost - collecting),
          own.map(({ unparsed }) => unparsed),
        ].map((values) => p99(values).toFixed(2));
        lines.push(`| ${name.replace("neighbours/", "")} | ${slice} | ${figures.join(" | ")} |`);
      }
    return lines.join("\n");
  } finally {
    rmSync(dir, { recursive: true });
  }
}
