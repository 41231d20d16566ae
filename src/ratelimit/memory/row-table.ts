// A hash table from (rule, subject) to rows, chained through the rows. Its buckets are allocated once, for as many rows
// as there may ever be, so it never grows; the system gives memory only to the pages that are used.
// The hash is keyed: ids are chosen by callers, and must not be able to fall into one bucket on purpose.
import { randomBytes } from "node:crypto";
import { CHAIN, NONE, RULE, type CounterRows } from "./rows.ts";
import type { Words } from "./subjects.ts";

/** Rows per bucket when all places are taken by rows of one place. */
const ROWS_PER_BUCKET = 2;

export class RowTable {
  readonly #rows: CounterRows;
  /** The first row of each chain, plus 1: memory that was never written is 0. */
  readonly #buckets: Int32Array;
  readonly #mask: number;
  readonly #keys = new Int32Array(randomBytes(24).buffer.slice(0, 24)).map((key) => key | 1);

  constructor(rows: CounterRows, places: number) {
    this.#rows = rows;
    const size = 2 ** Math.ceil(Math.log2(Math.max(1_024, places / ROWS_PER_BUCKET)));
    this.#buckets = new Int32Array(size);
    this.#mask = size - 1;
  }

  find(rule: number, subject: Words): number {
    let slot = this.#buckets[this.#bucket(rule, subject)]! - 1;
    while (slot !== NONE && !this.#rows.isNamed(slot, rule, subject)) slot = this.#rows.get(slot, CHAIN);
    return slot;
  }

  add(slot: number, rule: number, subject: Words): void {
    const bucket = this.#bucket(rule, subject);
    this.#rows.setSubject(slot, subject);
    this.#rows.set(slot, CHAIN, this.#buckets[bucket]! - 1);
    this.#buckets[bucket] = slot + 1;
  }

  delete(slot: number): void {
    const bucket = this.#bucket(this.#rows.get(slot, RULE), this.#rows.subjectOf(slot));
    const after = this.#rows.get(slot, CHAIN);
    let other = this.#buckets[bucket]! - 1;
    if (other === slot) {
      this.#buckets[bucket] = after + 1;
      return;
    }
    while (this.#rows.get(other, CHAIN) !== slot) other = this.#rows.get(other, CHAIN);
    this.#rows.set(other, CHAIN, after);
  }

  #bucket(rule: number, subject: Words): number {
    const keys = this.#keys;
    let h = Math.imul(rule ^ keys[0]!, keys[1]!);
    h = Math.imul(h ^ (h >>> 15) ^ subject[0]!, keys[2]!);
    h = Math.imul(h ^ (h >>> 13) ^ subject[1]!, keys[3]!);
    h = Math.imul(h ^ (h >>> 16) ^ subject[2]!, keys[4]!);
    h = Math.imul(h ^ (h >>> 15) ^ subject[3]!, keys[5]!);
    return (h ^ (h >>> 16)) & this.#mask;
  }
}
