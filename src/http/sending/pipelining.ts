// One request of a connection runs at a time; those that its client has sent meanwhile wait, and beyond a few of them the
// socket is not read. Owners take turns with what is ready to run.
// Caution: a socket is read in pieces of 64 KiB, and every request of a piece is parsed before the reading stops.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { ownerOf, type Actor } from "../../domain/core/actor.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import { networkOwner, type Owner } from "../../fairness/owners.ts";
import type { Turns } from "../../fairness/turns.ts";
import { isProbe } from "../overload-guard.ts";

/** Requests of one connection that may wait while its socket is read. */
const WAITING_MAX = 16;

export type Listener = (req: IncomingMessage, res: ServerResponse) => void;

export type PipeliningOptions = {
  turns: Turns;
  /** Counts the requests that wait behind another of their connection. */
  ledger: Ledger;
  addressOf: (request: Pick<IncomingMessage, "socket" | "headers">) => string;
  /** Answers a request that may not wait. */
  refuse: (res: ServerResponse) => void;
};

type Waiting = { readonly req: IncomingMessage; readonly res: ServerResponse; readonly owner: Owner };

const LINE = Symbol("line");
type LineSocket = Socket & { [LINE]?: Line };

export function inTurn(options: PipeliningOptions, next: Listener): Listener {
  return (req, res) => {
    const socket = req.socket as LineSocket;
    socket[LINE] ??= new Line(socket, options, next);
    socket[LINE].accept(req, res);
  };
}

/** The credential of the connection's last request is valid: the turns of its owner are used from now on. */
export function attribute(socket: Socket, actor: Actor): void {
  const line = (socket as LineSocket)[LINE];
  if (line) line.owner ??= ownerOf(actor);
}

/** The requests of one connection. */
class Line {
  /** Of the last credential, once that was found valid. */
  owner: Owner | undefined;
  readonly #socket: Socket;
  readonly #options: PipeliningOptions;
  readonly #next: Listener;
  readonly #waiting: Waiting[] = [];
  #authorization: string | undefined;
  #isRunning = false;
  #isHeld = false;
  #isWatched = false;

  constructor(socket: Socket, options: PipeliningOptions, next: Listener) {
    this.#socket = socket;
    this.#options = options;
    this.#next = next;
  }

  accept(req: IncomingMessage, res: ServerResponse): void {
    if (this.#isRunning) return this.#wait(req, res);
    this.#isRunning = true;
    this.#run(req, res);
  }

  #run(req: IncomingMessage, res: ServerResponse): void {
    const { authorization } = req.headers;
    if (authorization !== this.#authorization) {
      this.#authorization = authorization;
      this.owner = undefined;
    }
    if (authorization === undefined && isProbe(req)) return this.#start(req, res);
    this.#options.turns.run(this.#ownerFor(req), () => this.#start(req, res));
  }

  #ownerFor(req: IncomingMessage): Owner {
    return this.owner ?? networkOwner(this.#options.addressOf(req));
  }

  #start(req: IncomingMessage, res: ServerResponse): void {
    if (this.#socket.destroyed) return; // and nothing behind it will run
    this.#next(req, res);
    if (res.writableEnded && this.#waiting.length === 0) this.#isRunning = false;
    else res.once("finish", () => this.#runNext());
  }

  #runNext(): void {
    const next = this.#waiting.shift();
    if (!next) {
      this.#isRunning = false;
      return;
    }
    this.#options.ledger.release(next.owner);
    if (this.#isHeld && this.#waiting.length <= WAITING_MAX) {
      this.#isHeld = false;
      this.#socket.resume();
    }
    this.#run(next.req, next.res);
  }

  #wait(req: IncomingMessage, res: ServerResponse): void {
    const { ledger, refuse } = this.#options;
    const owner = this.#ownerFor(req);
    if (!ledger.hasRoom(owner)) {
      ledger.countRefusal(owner);
      return refuse(res);
    }
    if (!this.#isWatched) this.#watch();
    ledger.take(owner);
    this.#waiting.push({ req, res, owner });
    if (this.#waiting.length > WAITING_MAX) {
      this.#isHeld = true;
      this.#socket.pause();
    }
  }

  #watch(): void {
    this.#isWatched = true;
    // Node resumes the socket after each request that it has parsed.
    this.#socket.on("resume", () => this.#isHeld && this.#socket.pause());
    this.#socket.once("close", () => {
      for (const { owner } of this.#waiting.splice(0)) this.#options.ledger.release(owner);
    });
  }
}
