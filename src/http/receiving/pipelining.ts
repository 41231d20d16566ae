// One request of a connection runs at a time; those that its client has sent meanwhile wait, and beyond a few of them
// the socket is not read. Owners take turns with what is ready to run.
// Caution: a socket is read in pieces of 64 KiB, which hold up to 2,000 requests, and node parses every request of a
// piece before the reading stops. So a connection is closed if too many wait, and the remainder of its piece is not
// parsed.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { ownerOf, type Actor } from "../../domain/core/actor.ts";
import { FairSet } from "../../fairness/fair-set.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import { OwnerRecords } from "../../fairness/owner-records.ts";
import { networkOwner, type Owner } from "../../fairness/owners.ts";
import { PerTurn } from "../../fairness/per-turn.ts";
import type { Turns } from "../../fairness/turns.ts";
import { isProbe } from "../overload-guard.ts";
import { Reading, type Unread } from "./reading.ts";
import { stopParsing } from "./stop-parsing.ts";

/** Requests of one connection that may wait while its socket is read; one with a large body counts as several. */
const WAITING_MAX = 16;
/** Requests of one connection that may wait at all; beyond that it is closed. */
const PIPELINED_MAX = 100;
/** Probes that are served at once in one turn of the event loop; further ones wait for a turn of their network. */
const PROBES_AT_ONCE = 8;
/** Bytes of a body that count as one more request. */
const BODY_UNIT = 4 * 1024;
/** Maximum of a body that is read before it is needed. */
const BODY_MAX = 128 * 1024;

export type Listener = (req: IncomingMessage, res: ServerResponse) => void;

export type PipeliningOptions = {
  turns: Turns;
  /** Counts the requests that wait behind another of their connection, and bodies that wait for a turn. */
  ledger: Ledger;
  addressOf: (request: Pick<IncomingMessage, "socket" | "headers">) => string;
  /** The owner of the request's credential, if that was valid a moment ago on any connection. */
  knownOwner: (req: IncomingMessage) => Owner | undefined;
  /** Drops a body that may not wait, or no longer. */
  discard: (req: IncomingMessage) => void;
  /** Refuses a request that may not wait, or no longer; closes the connection if `res.shouldKeepAlive` is false. */
  refuse: (res: ServerResponse) => void;
};

type Waiting = {
  readonly owner: Owner;
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly queue: ConnectionQueue;
  /** How many requests it counts as. */
  readonly cost: number;
};

/** What all connections have in common. */
type Shared = {
  waiting: FairSet<Waiting>;
  unread: Unread;
  probes: PerTurn;
};

const QUEUE = Symbol("queue");
type QueuedSocket = Socket & { [QUEUE]?: ConnectionQueue };

/** Runs one request of a connection at a time, in a turn of its owner. */
export function withPipelining(options: PipeliningOptions, next: Listener): Listener {
  const evict = (evicted: Waiting): void => evicted.queue.drop(evicted);
  const waiting = new FairSet(options.ledger, evict, { amountOf: ({ cost }) => cost });
  const shared: Shared = { waiting, unread: new OwnerRecords(), probes: new PerTurn(PROBES_AT_ONCE) };
  return (req, res) => {
    const socket = req.socket as QueuedSocket;
    socket[QUEUE] ??= new ConnectionQueue(socket, options, shared, next);
    socket[QUEUE].accept(req, res);
  };
}

/** The credential of the connection's last request is valid: the turns of its owner are used from now on. */
export function attribute(socket: Socket, actor: Actor): void {
  const queue = (socket as QueuedSocket)[QUEUE];
  queue?.attribute(ownerOf(actor));
}

/** The requests of one connection. */
class ConnectionQueue {
  /** Owner of the last credential, once that was found valid. */
  owner: Owner | undefined;
  readonly #socket: Socket;
  readonly #reading: Reading;
  readonly #options: PipeliningOptions;
  readonly #next: Listener;
  readonly #shared: Shared;
  readonly #waiting: Waiting[] = [];
  /** Total cost of the waiting requests. */
  #cost = 0;
  /** The request that waits for its turn with a body. */
  #first: Waiting | undefined;
  /** Whether `#first` has lost its body to make room, and is refused in its turn. */
  #isDropped = false;
  #authorization: string | undefined;
  /** The request that runs, if its credential was not known to be valid, and who is active by it. */
  #unchecked: { owner: Owner } | undefined;
  /** Whose turns the last request has used. */
  #lastOwner: Owner | undefined;
  #bytesRead = -1;
  #isRunning = false;
  #hasTurn = false;
  #isWatched = false;
  #isClosing = false;

  constructor(socket: Socket, options: PipeliningOptions, shared: Shared, next: Listener) {
    this.#socket = socket;
    this.#reading = new Reading(socket, options.turns, options.ledger, shared.unread);
    this.#options = options;
    this.#shared = shared;
    this.#next = next;
  }

  attribute(owner: Owner): void {
    this.owner ??= owner;
    if (this.#unchecked) this.#unchecked.owner = this.owner;
  }

  accept(req: IncomingMessage, res: ServerResponse): void {
    if (this.#isRunning) return this.#wait(req, res);
    this.#reading.cancelWait(); // a later request of the piece that has been read
    this.#isRunning = true;
    this.#run(req, res);
  }

  #run(req: IncomingMessage, res: ServerResponse): void {
    const { authorization } = req.headers;
    if (authorization !== this.#authorization) {
      this.owner = authorization === undefined ? undefined : this.#options.knownOwner(req);
      this.#authorization = authorization;
    }
    if (authorization === undefined && isProbe(req) && this.#arrivedAlone() && this.#shared.probes.admits())
      return this.#start(req, res);
    const owner = this.#ownerFor(req);
    this.#lastOwner = owner;
    this.#hasTurn = false;
    // It may turn out that its credential, which no connection carried before, is valid.
    const isUnchecked = owner.kind === "network" && authorization !== undefined;
    this.#unchecked = isUnchecked ? { owner } : undefined;
    if (this.#unchecked) res.once("close", this.#noteActive(this.#unchecked));
    this.#options.turns.run(owner, () => this.#start(req, res), isUnchecked ? "unchecked" : "request");
    if (!this.#hasTurn) this.#waitForTurn(req, res, owner);
  }

  #noteActive(by: { readonly owner: Owner }): () => void {
    return () => this.#options.turns.noteActive(by.owner);
  }

  /** A request without a large body costs little compared with its connection. */
  #waitForTurn(req: IncomingMessage, res: ServerResponse, owner: Owner): void {
    const cost = costOf(req);
    if (cost === 1) return;
    this.#first = { owner, req, res, queue: this, cost };
    if (!this.#shared.waiting.add(owner, this.#first)) this.#dropFirst(req);
  }

  /** Drops the body now and refuses the request in its turn: answering a flood at once would delay others. */
  #dropFirst(req: IncomingMessage): void {
    this.#isDropped = true;
    this.#options.discard(req);
  }

  /** Monitors do not pipeline: only the first of several probes that arrive together is served at once. */
  #arrivedAlone(): boolean {
    const { bytesRead } = this.#socket;
    if (bytesRead === this.#bytesRead) return false;
    this.#bytesRead = bytesRead;
    return true;
  }

  #ownerFor(req: IncomingMessage): Owner {
    return this.owner ?? networkOwner(this.#options.addressOf(req));
  }

  #start(req: IncomingMessage, res: ServerResponse): void {
    this.#hasTurn = true;
    if (this.#first) this.#leave(this.#first);
    this.#first = undefined;
    if (this.#socket.destroyed) return; // and nothing behind it will run
    if (this.#isDropped) return this.#close(res);
    this.#next(req, res);
    if (res.writableEnded && this.#waiting.length === 0) this.#becomeIdle();
    else res.on("finish", () => this.#runNext());
  }

  #runNext(): void {
    const next = this.#waiting.shift();
    if (!next) return this.#becomeIdle();
    this.#leave(next);
    this.#cost -= next.cost;
    if (this.#cost <= WAITING_MAX) this.#reading.resume();
    this.#run(next.req, next.res);
  }

  /**
   * All responses are sent. A client that pipelines sends its next requests now, and those of a flood on many
   * connections would all be parsed before anything else runs. So if the owner has to wait, its connection is read in
   * its turn.
   */
  #becomeIdle(): void {
    this.#isRunning = false;
    if (!this.#isWatched) return;
    const owner = this.owner ?? this.#lastOwner;
    if (owner && !this.#isClosing) this.#reading.resumeInTurn(owner);
    else this.#reading.resume();
  }

  #leave(waiting: Waiting): void {
    this.#shared.waiting.delete(waiting);
    this.#reading.next(waiting.owner);
  }

  /** Drops a waiting request to make room for another owner's. */
  drop(waiting: Waiting): void {
    const at = this.#waiting.indexOf(waiting);
    if (at < 0) return this.#dropFirst(waiting.req);
    this.#waiting.splice(at, 1);
    this.#cost -= waiting.cost;
    this.#options.refuse(waiting.res);
    this.#reading.next(waiting.owner);
  }

  #wait(req: IncomingMessage, res: ServerResponse): void {
    if (this.#isClosing) return;
    if (!this.#isWatched) this.#watch();
    const owner = this.#ownerFor(req);
    const waiting = { owner, req, res, queue: this, cost: costOf(req) };
    if (this.#waiting.length >= PIPELINED_MAX) this.#options.ledger.countRefusal(owner);
    else if (this.#shared.waiting.add(owner, waiting)) return this.#enter(waiting);
    this.#close(res);
  }

  #enter(waiting: Waiting): void {
    this.#waiting.push(waiting);
    this.#cost += waiting.cost;
    if (this.#cost > WAITING_MAX) this.#reading.hold();
  }

  /** Refuses a request, and drops what follows it: refusing those one by one would cost more than serving them. */
  #close(res: ServerResponse): void {
    this.#isClosing = true;
    stopParsing(this.#socket);
    this.#reading.resume(); // to see a disconnect
    res.shouldKeepAlive = false;
    this.#options.refuse(res);
  }

  #watch(): void {
    this.#isWatched = true;
    this.#socket.once("close", () => {
      this.#reading.resume();
      for (const waiting of this.#waiting.splice(0)) this.#leave(waiting);
    });
  }
}

function costOf({ headers }: IncomingMessage): number {
  const length = "transfer-encoding" in headers ? BODY_MAX : Number(headers["content-length"] ?? 0);
  return 1 + Math.floor(Math.min(length, BODY_MAX) / BODY_UNIT);
}
