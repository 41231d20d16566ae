// `keyrack audit export`: the whole log as JSON Lines.
import { closeSync, openSync, writeSync } from "node:fs";
import { requireBearer, resolveTarget, type TargetOptions } from "../../api/target.ts";
import { fileError, plural, printResult } from "../../ui/output.ts";
import { readLog } from "./log.ts";
import type { OfflineOptions } from "./offline.ts";

export type ExportOptions = OfflineOptions & TargetOptions & { offline?: true; out?: string };

const STDOUT = 1;

function openOut(file: string): number {
  try {
    return openSync(file, "w", 0o600);
  } catch (error) {
    throw fileError("write", file, error);
  }
}

export async function exportLog(options: ExportOptions): Promise<void> {
  const file = options.out === undefined ? STDOUT : openOut(options.out);
  let rows = 0;
  const take = (row: Record<string, unknown>): void => {
    writeSync(file, `${JSON.stringify(row)}\n`);
    rows++;
  };
  try {
    if (options.offline || options.deployment) {
      const { readOffline } = await import("./offline.ts");
      await readOffline(options, { after: 0, limit: Infinity }, take);
    } else {
      await readLog(requireBearer(resolveTarget(options)), take);
    }
  } finally {
    if (options.out !== undefined) closeSync(file);
  }
  if (options.out === undefined) return;
  const human = `Exported ${plural(rows, "row")} to ${options.out}.`;
  printResult(options, { json: { object: "audit_export", rows, out: options.out }, quiet: "", human });
}
