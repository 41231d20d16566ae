// Entry point of the command line.
import { runCommandLine } from "./run.ts";
import { enlargeThreadPool } from "./thread-pool.ts";

enlargeThreadPool();

// The reader closed the pipe (`| head`, a stopped log collector): finish the work, and keep a server running. Without
// a listener the error would end the process with a stack trace.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});
// A log that cannot be written (disk full) must not stop the server. Writing an export to stdout must still fail.
process.stderr.on("error", () => {});

void runCommandLine(process.argv.slice(2)).then((code) => {
  process.exitCode = code;
  // What a failure left open, such as a thread of a failed stop, must not keep the process alive. Output is flushed
  // first.
  if (code !== 0) process.stdout.write("", () => process.stderr.write("", () => process.exit()));
});
