// The progress of an import: `FILE.keyrack-state`, JSON lines next to the input, appended and synced row by row.
// Caution: a crash can fall between the server's response and our line. The row's Idempotency-Key covers that.
import { rmSync } from "node:fs";
import { ExitError } from "../../ui/output.ts";
import { openAppend } from "./append-file.ts";

export type ImportState = {
  /** That of the run which this one continues, or its own. */
  head: RunHead;
  /** Row number → id of what was created. */
  done: Map<number, string>;
  markDone(row: number, id: string): void;
  close(): void;
};

/** The first line of a state file: what a run that continues must have in common with it. */
export type RunHead = {
  /** Hash of the input's contents and the flags. */
  run: string;
  /** The input, so that another file with the same contents is another run. */
  file?: string;
  workspace_id: string;
  /** The file with the created keys. */
  out?: string;
};

export function openState(file: string, head: RunHead, restart: boolean): ImportState {
  if (restart) rmSync(file, { force: true });
  let log = openAppend(file, "derived");
  const [header = "", ...created] = log.lines;
  if (header !== "" && created.length === 0 && differenceFrom(JSON.parse(header) as RunHead, head, file)) {
    // The earlier run created nothing, so its input need not match.
    log.close();
    rmSync(file);
    log = openAppend(file, "derived");
  }
  const [first, ...lines] = log.lines;
  const earlier = first ? (JSON.parse(first) as RunHead) : head;
  const problem = differenceFrom(earlier, head, file);
  if (problem) {
    log.close();
    throw new ExitError(`${problem}, or start over with --restart.`, 2);
  }
  if (!first) log.append(`${JSON.stringify(head)}\n`);
  const rows = lines.map((line) => JSON.parse(line) as { row: number; id: string });
  const done = new Map(rows.map(({ row, id }) => [row, id]));
  return {
    head: earlier,
    done,
    markDone: (row, id) => {
      log.append(`${JSON.stringify({ row, id })}\n`);
      done.set(row, id);
    },
    close: () => log.close(),
  };
}

/** Version 0.1 wrote only `run`. `file` may differ: the input may have been moved, together with its progress. */
function differenceFrom({ run, workspace_id, out }: Partial<RunHead>, now: RunHead, file: string): string | undefined {
  if (run !== now.run) return `The input or the flags differ from the earlier run in ${file}. Use the same ones`;
  if (workspace_id !== undefined && workspace_id !== now.workspace_id)
    return `The earlier run in ${file} was in another workspace. Use its credential`;
  if (out !== undefined && out !== now.out) return `The keys of the earlier run are in ${out}. Use --out ${out}`;
  return undefined;
}
