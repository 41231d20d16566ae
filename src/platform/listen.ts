// Opens a listener.
import type { ListenOptions, Server } from "node:net";

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
