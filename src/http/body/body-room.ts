// The room of one request body. A large body reserves it before it is read. A small one reserves it only if it arrives
// in several chunks; one that arrives with its headers costs nothing. Measuring and parsing a large body also occupies
// the event loop for milliseconds after its request has started: its owner waits for turns, also to read the remainder
// of one that is refused.
import type { Services } from "../../domain/core/context.ts";
import type { ArrayCuts, RunPiece, RawBody } from "../../domain/ingest/raw-body.ts";
import type { Owner } from "../../fairness/owners.ts";
import { noRoom, type Release, type Reservations } from "../../fairness/reservations.ts";
import type { Turns } from "../../fairness/turns.ts";
import { fail, type Failure } from "../../kernel/errors.ts";
import { MIB } from "../../kernel/sizes.ts";
import type { ClientAddresses } from "../address.ts";
import { chargedTo, type HttpRequest } from "../request.ts";
import { hold } from "../receiving/hold.ts";
import type { PartKeeper } from "./body.ts";

/** A socket is read in pieces of up to this size. */
const PIECE_BYTES = 64 * 1024;
/** What the smallest chunk counts as: each is parsed and measured by itself. */
const CHUNK_MIN = 256;
/**
 * Time charged for each PIECE_BYTES. It takes less to read and measure; but its memory is V8's external memory,
 * which is collected with a pause of about 10 ms for each 64 MiB. So its owner is in debt after it, and reads about
 * 40 MiB in a second while others are active.
 */
const PIECE_MS = 0.8;
/** Enough to parse a small body of usual events. bench: ingest/batch */
const SMALL_MS = 4;
/** Approximate memory of a small body's events once they are parsed. */
const PARSED_BYTES = MIB;

export type BodyRoomOptions = Pick<ClientAddresses, "addressOf"> & { turns: Turns };

export class BodyRoom implements PartKeeper {
  readonly #bodies: Services["bodies"];
  readonly #request: HttpRequest;
  readonly #options: BodyRoomOptions;
  #held: Release | undefined;
  #isLarge = false;
  /** Bytes that were read since the last turn. */
  #unpaid = 0;
  /** Set while the socket waits for a turn. */
  #isWaiting = false;

  constructor(bodies: Services["bodies"], request: HttpRequest, options: BodyRoomOptions) {
    this.#bodies = bodies;
    this.#request = request;
    this.#options = options;
  }

  /** Call before reading a large body. Rejects if the client disconnects while it waits, or if too many wait. */
  reserve(bytes: number): undefined | Promise<void> {
    this.#isLarge = true;
    const { socket } = this.#request;
    const owner = this.#owner();
    const room = this.#reservations(owner).reserve(
      owner,
      bytes,
      () => socket.destroy(),
      (drop) => {
        if (socket.destroyed) drop();
        else socket.once("close", drop);
        return () => socket.off("close", drop);
      },
    );
    if (!(room instanceof Promise)) {
      this.#held = room;
      return undefined;
    }
    const resume = hold(socket);
    return room.then((release) => void (this.#held = release)).finally(resume);
  }

  /** Wraps both callbacks so that they run in a turn of the owner. */
  wrapInTurn<T extends unknown[], E>(
    take: (...body: T) => void,
    refuse: (error: E) => void,
  ): [typeof take, typeof refuse] {
    const { turns } = this.#options;
    const owner = this.#owner();
    const run = (work: () => void): void => turns.run(owner, work, "body");
    return [(...body) => run(() => take(...body)), (error) => run(() => refuse(error))];
  }

  /** Reads the next piece in a turn of the owner. Node would read up to 2 MiB of each connection in every turn. */
  #pace(chunk: number): void {
    this.#unpaid += Math.max(chunk, CHUNK_MIN);
    if (this.#unpaid < PIECE_BYTES || this.#isWaiting) return;
    const { turns } = this.#options;
    const { socket } = this.#request;
    const owner = this.#owner();
    const charge = (): void => {
      turns.charge(owner, PIECE_MS * (this.#unpaid / PIECE_BYTES), "body");
      this.#unpaid = 0;
    };
    if (!turns.mustWait(owner, "body")) return charge();
    const resume = hold(socket);
    this.#isWaiting = true;
    const readNext = (): void => {
      this.#isWaiting = false;
      if (!socket.destroyed) charge();
      resume();
    };
    turns.run(owner, readNext, "body");
  }

  rawBody(bytes: Buffer, cuts: ArrayCuts | undefined): RawBody {
    if (!cuts) return { bytes };
    let isFirst = true;
    const runPiece: RunPiece = (work) => {
      const refusal = isFirst ? undefined : this.#keepParsed();
      isFirst = false;
      return refusal ? Promise.reject(refusal) : this.#runInTurn(() => work(this.#sliceMs()));
    };
    return { bytes, pieces: { cuts, runPiece } };
  }

  /** Reserves room for the parsed part of a small body, which waits for the next turn. */
  #keepParsed(): Failure | undefined {
    return this.#request.socket.destroyed ? fail("malformed_request") : this.#tryReserve(PARSED_BYTES);
  }

  #runInTurn<T>(work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        try {
          resolve(work());
        } catch (error) {
          reject(error);
        }
      };
      this.#options.turns.run(this.#owner(), settle, "body");
    });
  }

  /** An owner with many unfinished small bodies is refused more of them; a large one has its room. */
  keepPart(chunk: number, bytes: number): Failure | undefined {
    const { "content-length": length } = this.#request.headers;
    if (length !== undefined && bytes >= Number(length)) return undefined;
    if (this.#isLarge) {
      this.#pace(chunk);
      return undefined;
    }
    return this.#tryReserve(Number(length));
  }

  /** Reserves without waiting, for a small body that is already partly buffered. */
  #tryReserve(bytes: number): Failure | undefined {
    if (this.#held) return undefined;
    const owner = this.#owner();
    this.#held = this.#reservations(owner).tryReserve(owner, bytes, () => this.#request.socket.destroy());
    return this.#held ? undefined : noRoom();
  }

  #reservations({ kind }: Owner): Reservations {
    return kind === "network" ? this.#bodies.anonymous : this.#bodies.authenticated;
  }

  release(): void {
    this.#held?.();
    this.#held = undefined;
  }

  /** A small one is parsed in its first turn: what waits for another takes room. */
  #sliceMs(): number {
    return this.#isLarge ? this.#options.turns.sliceMs : SMALL_MS;
  }

  #owner(): Owner {
    return chargedTo(this.#request, this.#options.addressOf);
  }
}
