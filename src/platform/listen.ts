// Opens a listener.
import type { ListenOptions, Server } from "node:net";

/** Message and exit code for an operator whose server cannot listen. `setting` names what sets the port. */
export function listenProblem(error: unknown, host: string, port: number, setting: string): [string, 1 | 2] {
  const { code, message } = error as NodeJS.ErrnoException;
  return code === "EADDRINUSE"
    ? [`Port ${port} on ${host} is already in use. Stop the other program, or set ${setting}.`, 1]
    : [`Cannot listen on ${host} port ${port}: ${code ?? message}.`, 2];
}

/** Rejects when the server cannot listen. Later errors, of connections that cannot be accepted, go to `onError`. */
export function listen(server: Server, options: ListenOptions, onError: (error: Error) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(options, () => {
      server.off("error", reject).on("error", onError);
      resolve();
    });
  });
}
