// The room of one request body: reserved before a large one is read, and for a small one only when it has arrived in
// part, so that a body that comes with its headers costs nothing. A large one also takes the event loop for
// milliseconds after its request has started, to be measured and parsed: its owner waits for a turn, and pays for the
// bytes even of one that is refused.
import type { ArrayCuts, InTurn, RawBody } from "../../domain/ingest/raw-body.ts";
import type { Bodies } from "../../fairness/bodies.ts";
import type { Owner } from "../../fairness/owners.ts";
import { noRoom, type Release } from "../../fairness/reservations.ts";
import type { Turns } from "../../fairness/turns.ts";
import { fail, type Failure } from "../../kernel/errors.ts";
import type { MaybePromise } from "../../kernel/maybe-promise.ts";
import { MIB } from "../../kernel/sizes.ts";
import type { ClientAddresses } from "../address.ts";
import { chargedTo, type HttpRequest } from "../request.ts";
import { hold } from "../receiving/hold.ts";
import type { PartKeeper } from "./body.ts";

/** Approximate bytes that are read, measured and parsed in a millisecond. */
const BYTES_PER_MS = 200_000;
/** Approximate memory of a small body's events once they are parsed. */
const PARSED_BYTES = MIB;

export type BodyRoomOptions = Pick<ClientAddresses, "addressOf"> & { turns: Turns };

export class BodyRoom implements PartKeeper {
  readonly #bodies: Bodies;
  readonly #request: HttpRequest;
  readonly #options: BodyRoomOptions;
  #held: Release | undefined;

  constructor(bodies: Bodies, request: HttpRequest, options: BodyRoomOptions) {
    this.#bodies = bodies;
    this.#request = request;
    this.#options = options;
  }

  /** Before a large body is read. Rejects if the client disconnects while it waits, or if too many wait. */
  reserve(bytes: number): MaybePromise<void> {
    const { socket } = this.#request;
    const room = this.#bodies.reserve(
      this.#owner(),
      bytes,
      () => socket.destroy(),
      (drop) => {
        if (socket.destroyed) drop();
        else socket.once("close", drop);
        return () => socket.off("close", drop);
      },
    );
    if (!(room instanceof Promise)) return void (this.#held = room);
    const resume = hold(socket);
    return room.then((release) => void (this.#held = release)).finally(resume);
  }

  /** Wraps both callbacks so that they run in a turn of the owner. Call before a large body is read. */
  inTurn<T extends unknown[], E>(take: (...body: T) => void, refuse: (error: E) => void): [typeof take, typeof refuse] {
    const { turns } = this.#options;
    const { socket } = this.#request;
    const owner = this.#owner();
    const before = socket.bytesRead;
    const run = (work: () => void): void =>
      turns.run(owner, () => {
        turns.charge(owner, (socket.bytesRead - before) / BYTES_PER_MS);
        work();
      });
    return [(...body) => run(() => take(...body)), (error) => run(() => refuse(error))];
  }

  rawBody(bytes: Buffer, cuts: ArrayCuts | undefined): RawBody {
    if (!cuts) return { bytes };
    let isFirst = true;
    const inTurn: InTurn = (work) => {
      const refusal = isFirst ? undefined : this.#keepParsed();
      isFirst = false;
      return refusal ? Promise.reject(refusal) : this.#runInTurn(work);
    };
    return { bytes, pieces: { cuts, inTurn } };
  }

  /** Reserves room for the parsed part of a small body, which waits for the next turn. */
  #keepParsed(): Failure | undefined {
    const { socket } = this.#request;
    if (socket.destroyed) return fail("malformed_request");
    this.#held ??= this.#bodies.tryReserve(this.#owner(), PARSED_BYTES, () => socket.destroy());
    return this.#held ? undefined : noRoom();
  }

  #runInTurn<T>(work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#options.turns.run(this.#owner(), () => {
        try {
          resolve(work());
        } catch (error) {
          reject(error);
        }
      });
    });
  }

  isWhole(bytes: number): boolean {
    return this.#held !== undefined || bytes >= this.#length();
  }

  /** An owner with many unfinished small bodies is refused more of them. */
  keepPart(): Failure | undefined {
    const { socket } = this.#request;
    this.#held = this.#bodies.tryReserve(this.#owner(), this.#length(), () => socket.destroy());
    return this.#held ? undefined : noRoom();
  }

  release(): void {
    this.#held?.();
  }

  #length(): number {
    return Number(this.#request.headers["content-length"] ?? 0);
  }

  #owner(): Owner {
    return chargedTo(this.#request, this.#options.addressOf);
  }
}
