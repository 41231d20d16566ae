// Runs a script's main function: an expected failure is one line and its exit code, any other keeps its stack trace.
import { parseArgs, type ParseArgsConfig } from "node:util";
import { ExitError } from "../src/cli/ui/output.ts";

export async function runScript(main: () => void | Promise<void>): Promise<void> {
  try {
    await main();
  } catch (error) {
    if (!(error instanceof ExitError)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}

/** parseArgs, with one line and exit code 2 for a flag that it does not know. */
export function parseFlags<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
  try {
    return parseArgs(config);
  } catch (error) {
    throw new ExitError((error as Error).message, 2);
  }
}
