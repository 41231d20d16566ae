// Idle timeouts without a timer per response: node sets and clears one with every response; this scans all connections
// every few seconds instead. bench: ratelimit/check
import type { Server } from "node:http";
import type { Ledger } from "../../fairness/ledger.ts";
import { Connections, isIdle, KEEP_ALIVE_MS, type TrackedSocket } from "../connections.ts";

const SCAN_MS = 5_000;

/** When a connection was last seen busy, and how much it had sent by then. */
type Activity = { at: number; bytesRead: number };

export class ScannedConnections extends Connections {
  readonly #activity = new WeakMap<TrackedSocket, Activity>();
  readonly #now: () => number;

  constructor(ledger: Ledger, now: () => number = () => performance.now()) {
    super(ledger);
    this.#now = now;
  }

  override attach(server: Server, event: "connection" | "secureConnection"): void {
    super.attach(server, event);
    server.keepAliveTimeout = 0; // or node would set its timers too
    server.on(event, (socket: TrackedSocket) => this.#activity.set(socket, { at: this.#now(), bytesRead: 0 }));
    const timer = setInterval(() => this.scan(), SCAN_MS);
    timer.unref();
    server.on("close", () => clearInterval(timer));
  }

  /** A scan sees which connections were busy. */
  protected override trackRequests(): void {}

  /** Ends connections that have been idle for KEEP_ALIVE_MS, up to three scans late and never early. */
  scan(): void {
    const now = this.#now();
    for (const socket of this.open) {
      const last = this.#activity.get(socket);
      if (!last) continue;
      const { bytesRead } = socket;
      const isSending = bytesRead !== last.bytesRead && !socket.writableEnded; // once refused, nothing more is read
      if (isSending || !isIdle(socket)) {
        last.at = now;
        last.bytesRead = bytesRead;
        this.wasBusy(socket);
      } else if (now - last.at >= KEEP_ALIVE_MS + SCAN_MS) {
        socket.destroy();
      }
    }
  }
}
