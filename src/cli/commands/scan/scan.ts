// `keyrack scan`: finds Keyrack credentials in files, offline. The checksum rejects look-alikes. A match is printed by
// its display prefix, never whole: the report may end up in a CI log.
import { closeSync, lstatSync, openSync, readdirSync, readSync, realpathSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { CREDENTIAL_PATTERN, parseCredential } from "../../../kernel/credentials.ts";
import { MIB } from "../../../kernel/sizes.ts";
import {
  ExitError,
  escapeControls,
  examples,
  outputFlags,
  plural,
  print,
  table,
  type OutputOptions,
} from "../../ui/output.ts";
import { addPatternsCommand } from "./patterns.ts";

type Match = { path: string; line: number; column: number; kind: string; env: string | null; display_prefix: string };

const CHUNK = MIB;
/** Bytes of a chunk that are scanned again with the next one; longer than any credential. */
const OVERLAP = 128;
/**
 * Where a key may be: after its prefix, of which there are many. A look-ahead, because keys may begin inside
 * look-alikes.
 */
const PATTERN = new RegExp(`(?=(_(?:live|test)_[A-Za-z0-9_-]{32}[0-9a-f]{8}|${CREDENTIAL_PATTERN[1]}))`, "g");
const PREFIX_CHARS_MIN = 2;
const PREFIX_CHARS_MAX = 9;

type Found = { index: number; parsed: NonNullable<ReturnType<typeof parseCredential>> };

/** The credential of a match. The checksum covers the prefix, so one start of it at most is right. */
function credentialAt(text: string, index: number, match: string): Found | null {
  if (!match.startsWith("_")) {
    const parsed = parseCredential(match);
    return parsed && { index, parsed };
  }
  for (let chars = PREFIX_CHARS_MIN; chars <= Math.min(PREFIX_CHARS_MAX, index); chars++) {
    const parsed = parseCredential(text.slice(index - chars, index) + match);
    if (parsed) return { index: index - chars, parsed };
  }
  return null;
}

export function addTo(program: Command): void {
  const command = outputFlags(program.command("scan"), "print only the paths");
  command
    .description(
      "Find keys in files and folders, offline. Never prints whole keys. Exit 4 if a key is found, 1 if a path is unreadable.",
    )
    .argument("<path...>", "files or folders; everything in them is read, including ignored files")
    .addHelpText("after", examples(["keyrack scan .", "keyrack scan src config.yaml --json"]))
    .action((paths: string[], options: OutputOptions) => scan(paths, options));
  addPatternsCommand(command);
}

function* filesUnder(path: string, skipped: string[]): Generator<string> {
  const stat = lstatSync(path, { throwIfNoEntry: false }); // may have been deleted since its folder was listed
  if (stat?.isFile()) yield path;
  if (!stat?.isDirectory()) return; // links lead out of the tree, and devices never end
  let names: string[] = [];
  try {
    names = readdirSync(path).toSorted();
  } catch {
    skipped.push(path);
  }
  for (const name of names) yield* filesUnder(join(path, name), skipped);
}

/** Reads a file of any size in chunks, as bytes: binary files contain keys too. */
function scanFile(path: string): Match[] {
  const found: Match[] = [];
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
      // Passes each byte once, to stay linear on a file full of keys.
      const passTo = (index: number): void => {
        const passed = text.slice(seen, index).split("\n");
        column = (passed.length === 1 ? column : 1) + (passed.at(-1) ?? "").length;
        line += passed.length - 1;
        seen = index;
      };
      for (const match of text.matchAll(PATTERN)) {
        if (match.index >= end + PREFIX_CHARS_MAX) break; // it may continue in the next chunk
        const credential = credentialAt(text, match.index, match[1] ?? "");
        if (!credential || credential.index < seen || credential.index >= end) continue;
        const { parsed } = credential;
        passTo(credential.index);
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
  const found: Match[] = [];
  const skipped: string[] = [];
  let files = 0;
  for (const path of paths) {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (!stat) throw new ExitError(`${escapeControls(path)} does not exist.`, 2);
    if (!stat.isFile() && !stat.isDirectory())
      throw new ExitError(`${escapeControls(path)} is neither a file nor a folder.`, 2);
    // Follows a link that was named, but none inside the tree.
    for (const file of filesUnder(lstatSync(path).isSymbolicLink() ? realpathSync(path) : path, skipped)) {
      try {
        found.push(...scanFile(file));
        files++;
      } catch {
        skipped.push(file);
      }
    }
  }
  if (options.json) print(JSON.stringify({ object: "scan", files, found, skipped }));
  else if (options.quiet) for (const path of new Set(found.map((one) => one.path))) print(escapeControls(path));
  else if (found.length > 0) {
    const rows = found.map((one) => [
      `${escapeControls(one.path)}:${one.line}:${one.column}`,
      one.kind,
      one.env ?? "-",
      `${one.display_prefix}…`,
    ]);
    print(table([["LOCATION", "KIND", "ENV", "KEY"], ...rows]));
  } else print(`No keys found in ${plural(files, "file")}.`);
  if (found.length > 0)
    throw new ExitError(
      `${plural(found.length, "key")} found. Rotate or revoke: keyrack key rotate, keyrack key revoke.`,
      4,
    );
  // A clean result covers only what could be read.
  if (skipped.length > 0)
    throw new ExitError(
      `Cannot read ${plural(skipped.length, "path")}, first: ${escapeControls(skipped[0] ?? "")}.`,
      1,
    );
}
