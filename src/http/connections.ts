// The open connections of a server, so that a server that stops can end the idle ones at once. Node's own
// closeIdleConnections() leaves those that have not sent a request yet.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { FairSet } from "../fairness/fair-set.ts";
import type { Ledger } from "../fairness/ledger.ts";
import { networkOwner } from "../fairness/owners.ts";
import { bareAddress } from "./address.ts";
import { MINUTE_MS } from "../kernel/durations.ts";

/** How long a connection may stay idle between two requests; announced in every response. */
export const KEEP_ALIVE_MS = 65_000;

/**
 * The last request of a connection and its response. A property of the socket: a WeakMap would cost every request.
 */
export const LAST_EXCHANGE = Symbol("last exchange");
/** When a connection last carried a valid credential, by performance.now(). */
export const LAST_VALID = Symbol("last valid");
/** Whether a stream is being sent, whose client may pause for longer. */
export const STREAMS = Symbol("streams");
export type TrackedSocket = Socket & {
  [LAST_EXCHANGE]?: { req: IncomingMessage; res: ServerResponse };
  [LAST_VALID]?: number;
  [STREAMS]?: boolean;
};

const SPARED_MS = MINUTE_MS;

export class Connections {
  readonly open = new Set<TrackedSocket>();
  readonly #bounded: FairSet<TrackedSocket>;
  readonly #proxied = new WeakSet<TrackedSocket>();
  /** Over TLS: the raw sockets whose handshake is not done, by both ends of the connection. */
  readonly #handshaking = new Map<string, TrackedSocket>();

  constructor(ledger: Ledger) {
    const isSpared = (socket: TrackedSocket): boolean =>
      !isIdle(socket) || performance.now() - (socket[LAST_VALID] ?? Number.NEGATIVE_INFINITY) < SPARED_MS;
    // A proxy sends the requests of many clients on one connection. A request runs once it was read.
    const isHeld = (socket: TrackedSocket, end: () => void): boolean => {
      const { req, res } = socket[LAST_EXCHANGE] ?? {};
      if (!this.#proxied.has(socket) || !req?.complete || res?.closed !== false) return false;
      res.once("close", end);
      return true;
    };
    this.#bounded = new FairSet(ledger, (socket) => socket.destroy(), { isSpared, isHeld, replacesOwn: () => true });
  }

  /** `event` announces a connection that can carry requests: over TLS, one whose handshake is done. */
  attach(server: Server, event: "connection" | "secureConnection"): void {
    server.keepAliveTimeout = KEEP_ALIVE_MS;
    this.trackRequests(server);
    if (event === "secureConnection") this.#trackHandshakes(server);
    server.on(event, (socket: TrackedSocket) => this.#track(socket));
  }

  #track(socket: TrackedSocket): void {
    if (!this.#bounded.add(networkOwner(bareAddress(socket.remoteAddress ?? "")), socket)) {
      socket.destroy();
      return;
    }
    this.open.add(socket);
    socket.on("close", () => this.#untrack(socket));
  }

  #untrack(socket: TrackedSocket): void {
    this.open.delete(socket);
    this.#bounded.delete(socket);
  }

  /** A connection counts before its handshake too; afterwards the TLS socket takes the place of the raw one. */
  #trackHandshakes(server: Server): void {
    server.on("connection", (raw: TrackedSocket) => {
      const ends = endsOf(raw);
      this.#handshaking.set(ends, raw);
      raw.once("close", () => {
        if (this.#handshaking.get(ends) === raw) this.#handshaking.delete(ends);
      });
      this.#track(raw);
    });
    server.on("secureConnection", (socket: Socket) => {
      const ends = endsOf(socket);
      const raw = this.#handshaking.get(ends);
      if (!raw) return;
      this.#handshaking.delete(ends);
      this.#untrack(raw);
    });
  }

  /** Counts the connection of a trusted proxy for the client of its last request. */
  countFor(socket: TrackedSocket, address: string): void {
    this.#proxied.add(socket);
    this.#bounded.move(socket, networkOwner(address));
  }

  protected trackRequests(server: Server): void {
    server.on("request", ({ socket }: IncomingMessage) => this.wasBusy(socket));
  }

  /** The connection was busy just now: others are evicted before it. */
  protected wasBusy(socket: TrackedSocket): void {
    this.#bounded.touch(socket);
  }

  endIdle(): void {
    for (const socket of this.open) if (isIdle(socket)) socket.destroy();
  }
}

const endsOf = ({ remoteAddress, remotePort, localAddress }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress}`;

/** Whether no response is outstanding. */
export function isIdle(socket: TrackedSocket): boolean {
  return socket[LAST_EXCHANGE]?.res.writableFinished ?? true;
}
