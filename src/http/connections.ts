// The open connections of a server, so that a server that stops can end the idle ones at once. Node's own
// closeIdleConnections() leaves those that have not sent a request yet.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** How long a connection may stay idle between two requests; announced in every response. */
export const KEEP_ALIVE_MS = 65_000;

/** The last request of a connection and its response; a property of the socket, as a WeakMap costs with every request. */
export const LAST_EXCHANGE = Symbol("last exchange");
export type TrackedSocket = Socket & { [LAST_EXCHANGE]?: { req: IncomingMessage; res: ServerResponse } };

export class Connections {
  readonly open = new Set<TrackedSocket>();

  /** `event` announces a connection that can carry requests: over TLS, one whose handshake is done. */
  attach(server: Server, event: "connection" | "secureConnection"): void {
    server.keepAliveTimeout = KEEP_ALIVE_MS;
    server.on(event, (socket: Socket) => {
      this.open.add(socket);
      socket.once("close", () => this.open.delete(socket));
    });
  }

  endIdle(): void {
    for (const socket of this.open) if (isIdle(socket)) socket.destroy();
  }
}

/** Whether no response is outstanding. */
export function isIdle(socket: TrackedSocket): boolean {
  return socket[LAST_EXCHANGE]?.res.writableFinished ?? true;
}
