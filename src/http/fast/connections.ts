// The connections of a server. Node times the quiet ones by a timer that it makes and drops with every answer, which was a
// tenth of a small request; here all of them are looked at every few seconds, and a request costs nothing.
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { LAST_EXCHANGE, type TrackedSocket } from "../parser-errors.ts";
import { KEEP_ALIVE_MS } from "./response.ts";

const LOOK_MS = 5_000;

/** What was seen of a connection when it was last found busy. */
type Seen = { at: number; bytesRead: number };

export class Connections {
  readonly #open = new Map<TrackedSocket, Seen>();
  readonly #now: () => number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** For as long as the server lives. `event` tells of a connection that requests may come over. */
  attach(server: Server, event: "connection" | "secureConnection"): void {
    server.keepAliveTimeout = 0; // or node would time them too
    server.on(event, (socket: Socket) => {
      this.#open.set(socket, { at: this.#now(), bytesRead: 0 });
      socket.once("close", () => this.#open.delete(socket));
    });
    const timer = setInterval(() => this.look(), LOOK_MS);
    timer.unref();
    server.on("close", () => clearInterval(timer));
  }

  /** Ends what has been quiet for as long as every answer promises, and up to three looks longer: never sooner. */
  look(): void {
    const now = this.#now();
    for (const [socket, seen] of this.#open) {
      const { bytesRead } = socket;
      const talks = bytesRead !== seen.bytesRead && !socket.writableEnded; // once refused, nobody listens any more
      if (talks || !isQuiet(socket)) {
        seen.at = now;
        seen.bytesRead = bytesRead;
      } else if (now - seen.at >= KEEP_ALIVE_MS + LOOK_MS) {
        socket.destroy();
      }
    }
  }

  /** Ends those on which nothing is being answered; for a server that has stopped accepting. */
  endQuiet(): void {
    for (const socket of this.#open.keys()) if (isQuiet(socket)) socket.destroy();
  }
}

function isQuiet(socket: TrackedSocket): boolean {
  return socket[LAST_EXCHANGE]?.res.writableFinished ?? true;
}
