// Entry point of the command line.
import { exitOnOutputError } from "./output-errors.ts";
import { runCommandLine } from "./run.ts";
import { enlargeThreadPool } from "./thread-pool.ts";

enlargeThreadPool();

exitOnOutputError();
// A log that cannot be written (disk full) must not stop the server.
process.stderr.on("error", () => {});

void runCommandLine(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
  // What a failure left open, such as a thread of a failed stop, must not keep the process alive. Output is flushed
  // first.
  if (code !== 0) process.stdout.write("", () => process.stderr.write("", () => process.exit()));
});
