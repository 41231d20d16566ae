// Finds where the first long array of a body's object can be cut, and bounds what is parsed at once, so that the body
// can be parsed in pieces.
import type { ArrayCuts } from "../../domain/ingest/raw-body.ts";

/**
 * Structural characters after which a piece ends with its item: few enough that hostile items do not hold the event
 * loop.
 */
export const PIECE_MIN = 2_000;
/** Structural characters that are parsed at once: of a piece, and of all that is outside of the array. */
export const PIECE_MAX = 10_000;

/** `left` is how many structural characters the body may still have, `at` an offset in it. */
export type Cutter = {
  /** Refuse the body once `left` is less. */
  readonly floor: number;
  /** Call `cut` for the next comma at the array's depth once `left` is less. */
  readonly cutBelow: number;
  readonly cuts: ArrayCuts | undefined;
  open(at: number, left: number): void;
  cut(at: number, left: number): void;
  close(at: number, left: number): void;
};

/** For a body that is parsed at once. */
export const UNCUT: Cutter = { floor: 0, cutBelow: -1, cuts: undefined, open() {}, cut() {}, close() {} };

export class ArrayCutter implements Cutter {
  floor = 0;
  cutBelow = -1;
  /** Offsets of the open array, or of the array that is cut. */
  #start: number | undefined;
  #end: number | undefined;
  readonly #commas: number[] = [];
  /** How many structural characters may still be outside of the array. */
  #outsideLeft = PIECE_MAX;
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
    this.#beginPiece(max);
  }

  get cuts(): ArrayCuts | undefined {
    if (this.#start === undefined || this.#commas.length === 0) return undefined;
    return { start: this.#start, commas: this.#commas, end: this.#end };
  }

  open(at: number, left: number): void {
    if (this.#commas.length > 0) return;
    this.#start = at;
    this.#outsideLeft = PIECE_MAX - (this.#max - left);
  }

  /** Also called for commas of an object at that depth: there no array is open. */
  cut(at: number, left: number): void {
    if (this.#start === undefined) return;
    this.#commas.push(at);
    this.#beginPiece(left);
  }

  close(at: number, left: number): void {
    if (this.#commas.length === 0)
      this.#start = undefined; // a short one: a later array may be long
    else if (this.#end === undefined) {
      this.#end = at;
      this.cutBelow = -1;
      this.floor = Math.max(0, left - this.#outsideLeft);
    }
  }

  #beginPiece(left: number): void {
    this.cutBelow = left - PIECE_MIN;
    this.floor = Math.max(0, left - PIECE_MAX);
  }
}
