// `keyrack scan`: finds our credentials in files, offline. The checksum rejects what only looks like one, and a find is
// printed by its display prefix, never whole: the report may go to places where the key must not.
import { closeSync, lstatSync, openSync, readdirSync, readSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { CREDENTIAL_PATTERN, parseCredential } from "../../kernel/credentials.ts";
import { ExitError, out, safe, table } from "../ui/output.ts";
import { outputFlags, type OutputOptions } from "../api/target.ts";

type Found = { path: string; line: number; column: number; kind: string; env: string | null; display_prefix: string };

const CHUNK = 1 << 20;
/** Longer than any credential: what a chunk carries over into the next. */
const OVERLAP = 128;
/** Looks ahead, so that what only looks like a key does not hide one that begins inside it. */
const PATTERN = new RegExp(`(?=(${CREDENTIAL_PATTERN.join("|")}))`, "g");

export function addScanCommand(program: Command): void {
  outputFlags(program.command("scan"), "print only the paths")
    .description(
      "Find keys in files and folders, offline. Exit 4 when any is found, 1 when a path cannot be read; whole keys are never printed.",
    )
    .argument("<path...>", "files or folders; everything in them is read, ignored files too")
    .addHelpText("after", "\nExamples:\n  keyrack scan .\n  keyrack scan src config.yaml --json")
    .action((paths: string[], options: OutputOptions) => scan(paths, options));
}

function* filesUnder(path: string, skipped: string[]): Generator<string> {
  const stat = lstatSync(path, { throwIfNoEntry: false }); // it may have gone since its folder was read
  if (stat?.isFile()) yield path;
  if (!stat?.isDirectory()) return; // links would lead out of the tree, and devices never end
  let names: string[] = [];
  try {
    names = readdirSync(path).toSorted();
  } catch {
    skipped.push(path);
  }
  for (const name of names) yield* filesUnder(join(path, name), skipped);
}

/** Reads a file of any size and kind in pieces, as bytes: binary files hold keys too. */
function scanFile(path: string): Found[] {
  const found: Found[] = [];
  const file = openSync(path, "r");
  try {
    const chunk = Buffer.alloc(CHUNK);
    let carried = "";
    let line = 1;
    let column = 1;
    for (;;) {
      const read = readSync(file, chunk);
      const text = carried + chunk.toString("latin1", 0, read);
      const last = read === 0;
      const end = last ? text.length : Math.max(0, text.length - OVERLAP);
      let seen = 0;
      // Each byte is passed once: a file may be nothing but keys.
      const passTo = (index: number): void => {
        const passed = text.slice(seen, index).split("\n");
        column = (passed.length === 1 ? column : 1) + (passed.at(-1) ?? "").length;
        line += passed.length - 1;
        seen = index;
      };
      for (const match of text.matchAll(PATTERN)) {
        if (match.index >= end) break; // it may go on in the next piece
        const parsed = parseCredential(match[1] ?? "");
        if (!parsed) continue;
        passTo(match.index);
        found.push({ path, line, column, kind: parsed.kind, env: parsed.env, display_prefix: parsed.displayPrefix });
      }
      passTo(end);
      carried = text.slice(end);
      if (last) return found;
    }
  } finally {
    closeSync(file);
  }
}

function scan(paths: string[], options: OutputOptions): void {
  const found: Found[] = [];
  const skipped: string[] = [];
  let files = 0;
  for (const path of paths) {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (!stat) throw new ExitError(`There is no ${safe(path)}.`, 2);
    if (!stat.isFile() && !stat.isDirectory()) throw new ExitError(`${safe(path)} is neither a file nor a folder.`, 2);
    // A link that was named is followed; one that lies in the tree is not.
    for (const file of filesUnder(lstatSync(path).isSymbolicLink() ? realpathSync(path) : path, skipped)) {
      try {
        found.push(...scanFile(file));
        files++;
      } catch {
        skipped.push(file);
      }
    }
  }
  if (options.json) out(JSON.stringify({ object: "scan", files, found, skipped }));
  else if (options.quiet) for (const path of new Set(found.map((one) => one.path))) out(safe(path));
  else if (found.length > 0) {
    const rows = found.map((one) => [
      `${safe(one.path)}:${one.line}:${one.column}`,
      one.kind,
      one.env ?? "-",
      `${one.display_prefix}…`,
    ]);
    out(table([["WHERE", "KIND", "ENV", "KEY"], ...rows]));
  } else out(`No keys in ${files} files.`);
  if (found.length > 0)
    throw new ExitError(
      `${found.length} keys found. Revoke and rotate them: keyrack key revoke, keyrack secret-key rotate.`,
      4,
    );
  // Nothing found is only true of what was read.
  if (skipped.length > 0)
    throw new ExitError(`${skipped.length} paths could not be read, the first is ${safe(skipped[0] ?? "")}.`, 1);
}
