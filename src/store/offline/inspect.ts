// Copies and checks of a database, each in a worker of its own. Main-thread side.
import { statSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { workerSource } from "../../platform/packaged-files.ts";
import type { Contents } from "./contents.ts";
import type { OnProgress, Step } from "../progress.ts";
import type { DatabaseTarget } from "../target.ts";

export type Inspection = {
  contents: Contents;
  /** Descriptions of everything wrong; empty if nothing is. */
  findings: string[];
  chains: number;
  audit_rows: number;
};

export type InspectTask =
  | { op: "copy"; file: string; to: string }
  | { op: "inspect"; target: DatabaseTarget }
  | { op: "quick"; file: string };

type Reply = { progress?: Step; value?: unknown; error?: { message: string; code?: string } };

async function runInWorker(task: InspectTask, onProgress: OnProgress = () => {}): Promise<unknown> {
  const source = workerSource("store/offline/inspect.worker.ts");
  onProgress.signal?.throwIfAborted();
  const worker = new Worker(source.code, { eval: source.eval, workerData: { ...task, ...source.data } });
  const end = (): void => void worker.terminate();
  onProgress.signal?.addEventListener("abort", end);
  const done = new Promise((resolve, reject) => {
    worker.on("message", ({ progress, value, error }: Reply) => {
      if (progress) onProgress(progress);
      else if (error) reject(Object.assign(new Error(error.message), { code: error.code }));
      else resolve(value);
    });
    worker.once("error", reject);
    worker.once("exit", () =>
      reject((onProgress.signal?.reason as Error | undefined) ?? new Error("the inspection worker ended unexpectedly")),
    );
  });
  return done.finally(() => onProgress.signal?.removeEventListener("abort", end));
}

const PROGRESS_MS = 200;

/** Copies a SQLite database, in use or not, to a new file. Durable when this resolves. */
export async function copySqlite(file: string, to: string, onProgress: OnProgress): Promise<void> {
  const total = statSync(file).size;
  const size = (): number => statSync(to, { throwIfNoEntry: false })?.size ?? 0;
  const timer = setInterval(() => onProgress({ step: "copy", done: Math.min(size(), total), total }), PROGRESS_MS);
  try {
    await runInWorker({ op: "copy", file, to }, onProgress);
  } finally {
    clearInterval(timer);
  }
}

/** Checks integrity, foreign keys and every audit chain. */
export async function inspect(target: DatabaseTarget, onProgress?: OnProgress): Promise<Inspection> {
  return (await runInWorker({ op: "inspect", target }, onProgress)) as Inspection;
}

/** The findings of SQLite's quick check. A file that is not a database is a finding too. */
export async function quickCheck(file: string): Promise<string[]> {
  try {
    return (await runInWorker({ op: "quick", file })) as string[];
  } catch (error) {
    return [(error as Error).message];
  }
}
