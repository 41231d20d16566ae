// The room of one request body: reserved before a large one is read, and for a small one only when it has arrived in part, so
// that a body that comes with its headers costs nothing.
import type { Bodies } from "../../fairness/bodies.ts";
import type { Owner } from "../../fairness/owners.ts";
import type { Release } from "../../fairness/reservations.ts";
import { fail, type Failure } from "../../kernel/errors.ts";
import type { MaybePromise } from "../../kernel/maybe-promise.ts";
import { chargedTo, type HttpRequest } from "../request.ts";
import type { PartKeeper } from "./body.ts";

export class BodyRoom implements PartKeeper {
  readonly #bodies: Bodies;
  readonly #request: HttpRequest;
  readonly #addressOf: (request: HttpRequest) => string;
  #held: Release | undefined;

  constructor(bodies: Bodies, request: HttpRequest, addressOf: (request: HttpRequest) => string) {
    this.#bodies = bodies;
    this.#request = request;
    this.#addressOf = addressOf;
  }

  /** Before a large body is read. Rejects if the client disconnects while it waits. */
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
    return room.then((release) => void (this.#held = release));
  }

  isWhole(bytes: number): boolean {
    return this.#held !== undefined || bytes >= this.#length();
  }

  /** An owner with many unfinished small bodies is refused more of them. */
  keepPart(): Failure | undefined {
    const { socket } = this.#request;
    this.#held = this.#bodies.tryReserve(this.#owner(), this.#length(), () => socket.destroy());
    return this.#held ? undefined : fail("share_full", { retryAfterSeconds: 1, headers: { connection: "close" } });
  }

  release(): void {
    this.#held?.();
  }

  #length(): number {
    return Number(this.#request.headers["content-length"] ?? 0);
  }

  #owner(): Owner {
    return chargedTo(this.#request, this.#addressOf);
  }
}
