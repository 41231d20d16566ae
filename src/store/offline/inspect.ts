// The caller's side of long looks at a database: copy, whole inspection, quick check, each in a worker that then ends.
import { statSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { workerSource } from "../../platform/packaged-files.ts";
import type { Contents } from "./contents.ts";
import type { OnProgress, Step } from "../progress.ts";
import type { DatabaseTarget } from "../target.ts";

export type Inspection = {
  contents: Contents;
  /** What is wrong with it, in words; empty = sound. */
  findings: string[];
  chains: number;
  audit_rows: number;
};

export type InspectTask =
  | { op: "copy"; file: string; to: string }
  | { op: "inspect"; target: DatabaseTarget }
  | { op: "quick"; file: string };

type Reply = { progress?: Step; value?: unknown; error?: { message: string; code?: string } };

async function inWorker(task: InspectTask, tell: OnProgress = () => {}): Promise<unknown> {
  const source = workerSource("store/offline/inspect.worker.ts");
  tell.signal?.throwIfAborted();
  const worker = new Worker(source.code, { eval: source.eval, workerData: { ...task, ...source.data } });
  const end = (): void => void worker.terminate();
  tell.signal?.addEventListener("abort", end);
  const done = new Promise((resolve, reject) => {
    worker.on("message", ({ progress, value, error }: Reply) => {
      if (progress) tell(progress);
      else if (error) reject(Object.assign(new Error(error.message), { code: error.code }));
      else resolve(value);
    });
    worker.once("error", reject);
    worker.once("exit", () =>
      reject((tell.signal?.reason as Error | undefined) ?? new Error("the inspection ended before it was done")),
    );
  });
  return done.finally(() => tell.signal?.removeEventListener("abort", end));
}

const LOOK_EVERY_MS = 200;

/** Copies a SQLite database, in use or not, to a new file that is on disk when this resolves. */
export async function copySqlite(file: string, to: string, tell: OnProgress): Promise<void> {
  const total = statSync(file).size;
  const size = (): number => statSync(to, { throwIfNoEntry: false })?.size ?? 0;
  const timer = setInterval(() => tell({ step: "copy", done: Math.min(size(), total), total }), LOOK_EVERY_MS);
  try {
    await inWorker({ op: "copy", file, to }, tell);
  } finally {
    clearInterval(timer);
  }
}

/** Integrity, foreign keys, figures and every audit chain. A file that is no database at all is a finding too. */
export async function inspect(target: DatabaseTarget, tell?: OnProgress): Promise<Inspection> {
  return (await inWorker({ op: "inspect", target }, tell)) as Inspection;
}

/** SQLite's quick check, by its findings. */
export async function quickCheck(file: string): Promise<string[]> {
  try {
    return (await inWorker({ op: "quick", file })) as string[];
  } catch (error) {
    return [(error as Error).message];
  }
}
