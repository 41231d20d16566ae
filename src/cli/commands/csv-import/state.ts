// The progress of an import: `FILE.keyrack-state`, JSON lines next to the input, appended and synced row by row.
// Caution: a crash can fall between the server's response and our line. The row's Idempotency-Key covers that.
import { rmSync } from "node:fs";
import { ExitError } from "../../ui/output.ts";
import { openAppend } from "./append-file.ts";

export type ImportState = {
  /** Row number → id of what was created. */
  done: Map<number, string>;
  markDone(row: number, id: string): void;
  close(): void;
};

/** The first line of a state file: what a run that continues must have in common with it. */
type RunHead = {
  /** Hash of the input and the flags. */
  run: string;
  workspace_id: string;
  /** The file with the created keys. */
  out?: string;
};

export function openState(file: string, head: RunHead, restart: boolean): ImportState {
  if (restart) rmSync(file, { force: true });
  let log = openAppend(file, "derived");
  if (log.lines.length === 1) {
    // Only the header: the earlier run created nothing, so its input need not match.
    log.close();
    rmSync(file);
    log = openAppend(file, "derived");
  }
  const [first, ...lines] = log.lines;
  const problem = first && differenceFrom(JSON.parse(first) as Partial<RunHead>, head, file);
  if (problem) {
    log.close();
    throw new ExitError(`${problem}, or start over with --restart.`, 2);
  }
  if (!first) log.append(`${JSON.stringify(head)}\n`);
  const rows = lines.map((line) => JSON.parse(line) as { row: number; id: string });
  const done = new Map(rows.map(({ row, id }) => [row, id]));
  return {
    done,
    markDone: (row, id) => {
      log.append(`${JSON.stringify({ row, id })}\n`);
      done.set(row, id);
    },
    close: () => log.close(),
  };
}

/** Version 0.1 wrote only `run`. */
function differenceFrom({ run, workspace_id, out }: Partial<RunHead>, now: RunHead, file: string): string | undefined {
  if (run !== now.run) return `The input or the flags differ from the earlier run in ${file}. Use the same ones`;
  if (workspace_id !== undefined && workspace_id !== now.workspace_id)
    return `The earlier run in ${file} was in another workspace. Use its credential`;
  if (out !== undefined && out !== now.out) return `The keys of the earlier run are in ${out}. Use --out ${out}`;
  return undefined;
}
