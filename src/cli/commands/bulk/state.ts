// How far a bulk run has come: `FILE.keyrack-state`, JSON lines beside the input, appended and synced row by row.
// The trap is a crash between the server's answer and our note of it; the row's Idempotency-Key covers that.
import { closeSync, existsSync, fchmodSync, fstatSync, ftruncateSync, openSync, readFileSync, rmSync } from "node:fs";
import { appendDurably } from "../../../platform/fsync.ts";
import { ExitError } from "../../ui/output.ts";

export type Appender = { lines: string[]; add(line: string): void; close(): void };

/** Opens a private file for appending; a last line that was cut short is dropped. */
export function openAppend(file: string): Appender {
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  let handle: number;
  try {
    handle = openSync(file, "a", 0o600);
    // The mode above is for a new file only; keys may go into one that is there already. Never on /dev/null.
    if (fstatSync(handle).isFile()) fchmodSync(handle, 0o600);
  } catch (error) {
    throw new ExitError(`${file} cannot be written: ${(error as NodeJS.ErrnoException).code}.`, 2);
  }
  if (whole.length < text.length) ftruncateSync(handle, Buffer.byteLength(whole));
  return {
    lines: whole.split("\n").slice(0, -1),
    add: (line) => appendDurably(handle, line),
    close: () => closeSync(handle),
  };
}

export type BulkState = { done: Map<number, string>; note(row: number, id: string): void; close(): void };

export function openState(file: string, run: string, restart: boolean): BulkState {
  if (restart) rmSync(file, { force: true });
  let log = openAppend(file);
  if (log.lines.length === 1) {
    // An earlier run that made nothing binds nobody.
    log.close();
    rmSync(file);
    log = openAppend(file);
  }
  const [head, ...rest] = log.lines.map((line) => JSON.parse(line) as { run?: string; row?: number; id?: string });
  if (!head) log.add(`${JSON.stringify({ run })}\n`);
  else if (head.run !== run) {
    log.close();
    throw new ExitError(
      `The input or the flags have changed since an earlier run (${file}). Put them back, or start anew with --restart.`,
      2,
    );
  }
  return {
    done: new Map(rest.map(({ row = 0, id = "" }) => [row, id])),
    note: (row, id) => log.add(`${JSON.stringify({ row, id })}\n`),
    close: () => log.close(),
  };
}
