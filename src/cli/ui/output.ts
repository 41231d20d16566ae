// Output shared by all commands: errors, --json and --quiet, tables. Every command loads it, so it must import little.
import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { ExitError } from "../../kernel/exit-error.ts";
import { codeOf } from "../../platform/errors.ts";

export { ExitError };

export function fileError(action: "read" | "write", file: string, error: unknown): ExitError {
  return new ExitError(`Cannot ${action} ${file}: ${codeOf(error)}.`, 2);
}

export function readTextFile(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw fileError("read", file, error);
  }
}

/** The parser of a flag that may be repeated. */
export const collectValues = (value: string, all: string[] | undefined): string[] => [...(all ?? []), value];

export type OutputOptions = { json?: true; quiet?: true };

export function outputFlags(command: Command, quiet = "print only the id"): Command {
  return command.option("--json", "print the result as JSON").option("--quiet", quiet);
}

export type Examples = readonly [string, string];

/** Help text below a command's options. */
export function examples(worked: Examples): string {
  return `\nExamples:\n  ${worked.join("\n  ")}`;
}

/** Escapes what JSON does not, for terminals. Its own colours stay. */
export function print(text: string): void {
  process.stdout.write(`${escapeMarks(text)}\n`);
}

/** One result in the form that the flags ask for. An empty text prints nothing. */
export function printResult(options: OutputOptions, result: { json: unknown; quiet: string; human: string }): void {
  const text = options.json ? JSON.stringify(result.json) : options.quiet ? result.quiet : result.human;
  if (text !== "") print(text);
}

/** `--secret-key` for secretKey. */
export const toFlag = (option: string): string =>
  `--${option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/** Aligned columns. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths: number[] = [];
  for (const row of rows) for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length);
  return rows
    .map((row) =>
      row
        .map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0)))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** "1 key", "2 keys". */
export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** An API timestamp to the minute: 2026-11-15T03:27Z. */
export function minute(timestamp: string | null): string {
  return timestamp?.slice(0, 16).concat("Z") ?? "-";
}

const escapeChar = (c: string): string => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** Escapes control characters and direction marks, so that text from others cannot control the terminal. */
export function escapeControls(text: string): string {
  return escapeMarks(text.replace(/[\u0000-\u001f]/g, escapeChar));
}

/** Escapes what JSON leaves as it is: such characters are part of strings only, so JSON keeps its value. */
function escapeMarks(text: string): string {
  return text.replace(/[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, escapeChar);
}

/** Lines of others for a terminal: their ends stay. */
export function escapeLines(text: string): string {
  return escapeMarks(text.replace(/(?!\r?\n)[\u0000-\u001f]/g, escapeChar));
}

export function isTerminal(): boolean {
  return process.stdin.isTTY && process.stdout.isTTY;
}

/** Dimmed on a terminal with colour. */
export function dim(text: string): string {
  return process.stdout.isTTY && !process.env.NO_COLOR ? `\u001b[2m${text}\u001b[22m` : text;
}

/** All of standard input, without the final newline. */
export async function readStdin(): Promise<string> {
  const chunks = (await process.stdin.toArray()) as Buffer[];
  return Buffer.concat(chunks)
    .toString("utf8")
    .replace(/\r?\n$/, "");
}
