// When the socket of a connection with pipelined requests is read. A client that pipelines sends its next requests as
// soon as it has its responses, and those of a flood on many connections would all be parsed before anything else runs.
// So if its owner has to wait for turns, a connection is read in one of them.
import type { Socket } from "node:net";
import type { FairQueue } from "../../fairness/fair-queue.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import type { Owner } from "../../fairness/owners.ts";
import type { Turns } from "../../fairness/turns.ts";
import { hold } from "./hold.ts";

/** Time charged to the owner for reading a connection: about 25 requests are parsed in it. */
const READ_MS = 0.5;
/**
 * While requests of an owner wait that count as this many, no further connection of it is read that has to wait for a
 * turn: each young collection copies all requests that were parsed. bench: neighbours/check
 */
const UNREAD_FROM = 64;
/** Then it is read all the same: what waits may be behind a long request of another connection. */
const UNREAD_MS = 250;

export class Reading {
  readonly #socket: Socket;
  readonly #turns: Turns;
  readonly #ledger: Ledger;
  readonly #unread: FairQueue<Reading>;
  /** Set while the socket is not read. */
  #release: (() => void) | undefined;
  #awaitsTurn = false;
  /** Set while it is read only once fewer requests of its owner wait. */
  #timer: NodeJS.Timeout | undefined;
  /** Whether it is in `#unread`, where it stays after the timer. */
  #isUnread = false;

  /** `ledger` counts the requests that wait; `unread` has all connections that are read once fewer of them do. */
  constructor(socket: Socket, turns: Turns, ledger: Ledger, unread: FairQueue<Reading>) {
    this.#socket = socket;
    this.#turns = turns;
    this.#ledger = ledger;
    this.#unread = unread;
  }

  /**
   * If the client disconnects meanwhile, the running request ends at its deadline at the latest. Those that wait behind
   * it are dropped when its response cannot be written.
   */
  hold(): void {
    this.#release ??= hold(this.#socket);
  }

  resume(): void {
    this.#awaitsTurn = false;
    this.#endTimer();
    this.#release?.();
    this.#release = undefined;
  }

  /** Reads at once if the owner need not wait for a turn. */
  resumeInTurn(owner: Owner): void {
    if (!this.#turns.mustWait(owner)) return this.#read(owner);
    this.hold();
    this.#awaitsTurn = true;
    this.#readInTurn(owner);
  }

  cancelWait(): void {
    if (this.#awaitsTurn) this.resume();
  }

  /** Call when fewer requests of the owner wait: each connection that is read lets the next one be read. */
  next(owner: Owner): void {
    while (this.#mayRead(owner)) {
      const next = this.#unread.shiftOf(owner);
      if (!next || next.#leaveUnread(owner)) return;
    }
  }

  #readInTurn(owner: Owner): void {
    this.#turns.run(owner, () => {
      if (this.#awaitsTurn && !this.#mayRead(owner)) return this.#stayUnread(owner);
      if (this.#awaitsTurn) this.#read(owner);
      this.next(owner);
    });
  }

  #read(owner: Owner): void {
    this.#turns.charge(owner, READ_MS);
    this.resume();
  }

  #mayRead(owner: Owner): boolean {
    return this.#ledger.usedBy(owner) < UNREAD_FROM;
  }

  #stayUnread(owner: Owner): void {
    if (!this.#isUnread) this.#unread.push(owner, this);
    this.#isUnread = true;
    this.#timer ??= setTimeout(() => this.#read(owner), UNREAD_MS).unref();
  }

  /** Returns whether it still waited. */
  #leaveUnread(owner: Owner): boolean {
    this.#isUnread = false;
    if (!this.#timer) return false;
    this.#endTimer();
    this.#readInTurn(owner);
    return true;
  }

  #endTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
