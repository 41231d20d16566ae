// Ends connections whose clients do not read: one that owes bytes must take a slice of them, or all, within the time
// allowed.
import type { Server, ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import { STREAMS, type Connections, type TrackedSocket } from "../connections.ts";
import { SLICE_BYTES } from "./slices.ts";

/** How many bytes the client had taken, and when it had last taken enough. */
type Progress = { taken: number; at: number };

/** The time allowed to the client of a stream. It notices that the last chunk is missing. */
const STREAM_STALL_MS = 30_000;

/** Ends the stream with its response, and allows its client to pause until then. */
export function sendStream(res: ServerResponse, stream: Readable): void {
  const socket: TrackedSocket | null = res.socket;
  if (!socket || res.destroyed) return void stream.destroy();
  socket[STREAMS] = true;
  res.once("close", () => {
    socket[STREAMS] = false;
    stream.destroy();
  });
}

export class Stalls {
  readonly #progress = new WeakMap<TrackedSocket, Progress>();
  readonly #connections: Connections;
  readonly #stallMs: number;
  readonly #now: () => number;

  constructor(connections: Connections, stallMs: number, now: () => number = () => performance.now()) {
    this.#connections = connections;
    this.#stallMs = stallMs;
    this.#now = now;
  }

  /** Scans until the server closes. */
  attach(server: Server): void {
    const timer = setInterval(() => this.scan(), this.#stallMs / 4);
    timer.unref();
    server.on("close", () => clearInterval(timer));
  }

  scan(): void {
    const now = this.#now();
    for (const socket of this.#connections.open) {
      const owed = socket.writableLength;
      if (owed === 0) {
        this.#progress.delete(socket);
        continue;
      }
      const taken = socket.bytesWritten - owed;
      const last = this.#progress.get(socket);
      if (!last || taken - last.taken >= SLICE_BYTES) this.#progress.set(socket, { taken, at: now });
      else if (now - last.at >= this.#allowedMs(socket)) socket.destroy();
    }
  }

  #allowedMs(socket: TrackedSocket): number {
    return socket[STREAMS] ? Math.max(STREAM_STALL_MS, this.#stallMs) : this.#stallMs;
  }
}
