// A folder that is gone when the work in it is done, also when a signal ends the script.
import { mkdtempSync, rmSync } from "node:fs";

/** `prefix` is the path of the folder but for its last six characters. */
export async function withTemporaryFolder<T>(prefix: string, use: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(prefix);
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  const stop = (): never => process.exit(1); // runs the listeners of "exit"
  process.once("exit", remove).once("SIGINT", stop).once("SIGTERM", stop);
  try {
    return await use(folder);
  } finally {
    process.off("exit", remove).off("SIGINT", stop).off("SIGTERM", stop);
    remove();
  }
}
