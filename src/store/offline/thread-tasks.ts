// Copies and checks of a database, in worker threads. Main-thread side.
import { statSync } from "node:fs";
import type { OnProgress } from "../progress.ts";
import type { DatabaseTarget } from "../target.ts";
import type { Inspection } from "../threads/tasks.ts";
import { backgroundThreads, threads } from "../threads/pool.ts";
import { findMissingKeys } from "./constraints.ts";
import { withSource } from "./source.ts";

const PROGRESS_MS = 200;

/** Copies a SQLite database, in use or not, to a new file. Durable when this resolves. */
export async function vacuumInto(
  file: string,
  to: string,
  onProgress: OnProgress,
  pool = backgroundThreads,
): Promise<void> {
  const total = statSync(file).size;
  const size = (): number => statSync(to, { throwIfNoEntry: false })?.size ?? 0;
  const timer = setInterval(() => onProgress({ step: "copy", done: Math.min(size(), total), total }), PROGRESS_MS);
  try {
    await pool.run({ op: "copy", file, to }, onProgress);
  } finally {
    clearInterval(timer);
  }
}

/** Checks integrity, keys and every audit chain. */
export async function inspect(
  target: DatabaseTarget,
  onProgress?: OnProgress,
  pool = backgroundThreads,
): Promise<Inspection> {
  const inspection = (await pool.run({ op: "inspect", target }, onProgress)) as Inspection;
  if (target.kind === "sqlite") return inspection;
  const missing = await withSource(target, findMissingKeys);
  return { ...inspection, findings: [...inspection.findings, ...missing] };
}

/** The findings of SQLite's quick check. */
export async function quickCheck(file: string, pool = backgroundThreads): Promise<string[]> {
  return (await pool.run({ op: "quick", file })) as string[];
}

/** The same before a start, where a file that is not a database is a finding too. */
export function quickCheckAtStart(file: string): Promise<string[]> {
  return quickCheck(file, threads).catch((error: Error) => [error.message]);
}
