// Signals that end a command.
import { constants } from "node:os";

export const ENDING_SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;

/** The status a shell reports for a process that a signal ended. */
export function signalStatus(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

/** Exits on these signals, so that "exit" listeners run. Returns a function that stops listening. */
export function exitOnSignals(signals: readonly NodeJS.Signals[] = ENDING_SIGNALS): () => void {
  const exit = (signal: NodeJS.Signals): void => process.exit(signalStatus(signal));
  for (const signal of signals) process.on(signal, exit);
  return () => {
    for (const signal of signals) process.off(signal, exit);
  };
}
