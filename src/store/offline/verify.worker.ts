// Worker that verifies one audit chain on a read connection of its own, then ends.
import { parentPort, workerData } from "node:worker_threads";
import { openSource } from "./source.ts";
import type { ChainCheck, VerifyTask } from "./verify-pool.ts";
import { verifyStoredChain } from "./verify.ts";

const task = workerData as VerifyTask;

async function main(): Promise<ChainCheck> {
  const source = await openSource(task.target);
  try {
    return await verifyStoredChain(source, task.workspace_id, task.expected);
  } finally {
    await source.close();
  }
}

main().then(
  (value) => parentPort?.postMessage({ value }, []),
  (error: { message: string; code?: string }) =>
    parentPort?.postMessage({ error: { message: error.message, code: error.code } }, []),
);
