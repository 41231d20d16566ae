// The client side of keyrack.sock, used by CLI commands.
import { statSync } from "node:fs";
import { connect } from "node:net";
import { ExitError } from "../../kernel/exit-error.ts";
import { readLines, socketPath, writeLine, type Reply } from "./protocol.ts";

/** Runs an operator command in the instance that uses this data dir. Undefined when none is running. */
export function callInstance(
  dir: string,
  op: string,
  args: Record<string, unknown>,
  onProgress: (step: unknown) => void = () => {},
): Promise<{ value: unknown } | undefined> {
  const path = socketPath(dir);
  if (path === null) return Promise.resolve(undefined);
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    let connected = false;
    socket.on("connect", () => {
      connected = true;
      writeLine(socket, { id: 1, op, args });
    });
    readLines(
      socket,
      (line) => {
        const reply = JSON.parse(line) as Reply;
        if (reply.progress !== undefined) return onProgress(reply.progress);
        socket.end();
        if (reply.error) reject(new ExitError(reply.error.message, reply.error.exit_code));
        else resolve({ value: reply.value });
      },
      Infinity, // trusted: a long list is one long line
    );
    socket.on("error", (error: NodeJS.ErrnoException) => {
      const notRunning = !connected && ["ENOENT", "ECONNREFUSED", "ENOTDIR"].includes(error.code ?? "");
      if (notRunning) resolve(undefined);
      else if (error.code === "EACCES") reject(new ExitError(refusedAt(dir, path), 1));
      else reject(new ExitError(`The connection to the instance was lost: ${error.code ?? error.message}.`, 3));
    });
    socket.on("close", () => reject(new ExitError("The instance stopped before it responded.", 3)));
  });
}

function refusedAt(dir: string, path: string): string {
  try {
    statSync(path);
  } catch {
    return `${dir} belongs to another user: run this as that user.`; // whether it has a socket cannot be known
  }
  return `${path} belongs to another user: run this as the one that runs the server.`;
}
