// Errors of standard output. Without a listener they would end the process with a stack trace.
import { codeOf } from "../platform/errors.ts";

/** The reader closed the pipe (`| head`, a stopped log collector): finish the work, and keep a server running. */
function report(error: Error): boolean {
  if (codeOf(error) === "EPIPE") return false;
  process.stderr.write(`keyrack: Cannot write to standard output: ${codeOf(error)}.\n`);
  return true;
}

/** Ends at once: a command that continued would leave a gap in its output. */
function exitOnError(error: Error): void {
  if (report(error)) process.exit(1);
}

export function exitOnOutputError(): void {
  process.stdout.on("error", exitOnError);
}

/** For a server: its ready line is not worth ending it for. */
export function keepRunningOnOutputError(): void {
  process.stdout.off("error", exitOnError).on("error", report);
}
