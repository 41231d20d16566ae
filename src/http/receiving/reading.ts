// When the socket of a connection with pipelined requests is read. A client that pipelines sends its next requests as
// soon as it has its responses, and those of a flood on many connections would all be parsed before anything else runs.
// So if its owner has to wait for turns, a connection is read in one of them.
import type { Socket } from "node:net";
import type { Ledger } from "../../fairness/ledger.ts";
import type { OwnerRecords } from "../../fairness/owner-records.ts";
import type { Owner } from "../../fairness/owners.ts";
import type { Turns } from "../../fairness/turns.ts";
import { LinkedList } from "../../kernel/linked-list.ts";
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

/** The connections of each owner that are read once fewer of its requests wait, oldest wait first. */
export type Unread = OwnerRecords<LinkedList<Reading>>;

export class Reading {
  readonly #socket: Socket;
  readonly #turns: Turns;
  readonly #ledger: Ledger;
  readonly #unread: Unread;
  /** Set while the socket is not read. */
  #release: (() => void) | undefined;
  #awaitsTurn = false;
  /** Set while it is in `#unread`. */
  #leaveUnread: (() => void) | undefined;

  /** `ledger` counts the requests that wait; `unread` is shared by all connections. */
  constructor(socket: Socket, turns: Turns, ledger: Ledger, unread: Unread) {
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

  /** Call when the connection is closed, too: nothing may refer to it then. */
  resume(): void {
    this.#awaitsTurn = false;
    this.#endWait();
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
    const first = this.#mayRead(owner) ? this.#unread.get(owner.id)?.first : undefined;
    if (!first) return;
    first.#endWait();
    first.#readInTurn(owner);
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
    if (this.#leaveUnread) return;
    const waiting = this.#unread.get(owner.id) ?? this.#unread.add(owner.id, new LinkedList());
    const place = waiting.append(this);
    const timer = setTimeout(() => this.#read(owner), UNREAD_MS).unref();
    this.#leaveUnread = () => {
      clearTimeout(timer);
      waiting.remove(place);
      if (waiting.size === 0) this.#unread.retire(owner.id);
    };
  }

  #endWait(): void {
    this.#leaveUnread?.();
    this.#leaveUnread = undefined;
  }
}
