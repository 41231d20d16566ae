// What commands share: errors with an exit code, and writing to the terminal. Loads nothing: every command pays for it.
import type { SettingName } from "../../config/settings.ts";

/** Exit codes: 0 done, 1 refused, 2 wrong usage or settings, 3 unreachable, 4 a verification failed, 70 storage. */
export class ExitError extends Error {
  readonly exitCode: number;
  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

export function out(text: string): void {
  process.stdout.write(`${text}\n`);
}

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

/** Flags of `serve` that are settings, by commander's camelCase names. */
export function settingFlags(options: Record<string, unknown>): Partial<Record<SettingName, string>> {
  const flags: Partial<Record<SettingName, string>> = {};
  for (const [name, value] of Object.entries(options)) {
    const setting = name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);
    if (typeof value === "string") flags[setting as SettingName] = value; // what is no setting is never asked for
  }
  return flags;
}

/** Text that others chose must not steer the terminal: control characters and direction marks are spelled out. */
export function safe(text: string): string {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

export function isTerminal(): boolean {
  return process.stdin.isTTY && process.stdout.isTTY;
}

/** Dimmed on a terminal that wants colour. */
export function dim(text: string): string {
  return process.stdout.isTTY && !process.env.NO_COLOR ? `\u001b[2m${text}\u001b[22m` : text;
}

/** All of standard input, without the newline at its end. */
export async function readStdin(): Promise<string> {
  const chunks = (await process.stdin.toArray()) as Buffer[];
  return Buffer.concat(chunks)
    .toString("utf8")
    .replace(/\r?\n$/, "");
}
