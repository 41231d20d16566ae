// Counter rows in typed arrays: each a ring of span counts with their sum, so that a check needs no addition over
// spans. Caution: `expireBefore` must run before anything else touches a row at a new time; it keeps the nonzero spans
// within one ring's length of each other, and the first of them in `base`.
//
// Memory is handed out in places of 40 Int32. The first place of a row holds `base` as a double, the fields below and
// 27 spans of the ring; a sliding row has a second place with the other 40 (60 counted spans, the partial oldest one, 6
// that leases book ahead). A fixed row counts in one span and needs one place. A check mostly touches the first cache
// line and one span (bench: limiter/check). Counts fit: a row never holds more than a limit, at most 1e9.
import { SUB_WINDOWS, SUB_WINDOWS_AHEAD } from "../../kernel/ratelimit/window.ts";

const SPANS = SUB_WINDOWS + 1 + SUB_WINDOWS_AHEAD;
const TOTAL = 2;
/** The ring position of `base`, the distance from `base` to the newest span, and flags. */
const META = 3;
export const RULE = 4;
/** The next row with the same hash; in a free place, the next free one. */
export const CHAIN = 5;
const SUBJECT = 6;
export const PREV = 10;
export const NEXT = 11;
const SECOND = 12;
/** The ring begins here and continues in the second place. */
const RING = 13;
const STRIDE = 40;
/** How many of its spans are in the first place. */
const FIRST_SPANS = STRIDE - RING;
// Places are allocated in chunks: doubling one array could copy a quarter of a gigabyte within one request.
const CHUNK_BITS = 10;
const CHUNK_MASK = (1 << CHUNK_BITS) - 1;

const RING_BITS = 7;
const RING_MASK = (1 << RING_BITS) - 1;
const FLAGS = ~((1 << (2 * RING_BITS)) - 1);
/** Charged since the flag was last cleared. */
export const CHARGED = 1 << (2 * RING_BITS);
/** Changed since it was last saved. */
export const DIRTY = CHARGED << 1;

export const NONE = -1;

export class CounterRows {
  /** Every place ever allocated is below it. */
  #high = 0;
  #free = NONE;
  readonly #chunks: Int32Array[] = [];
  /** The same bytes as doubles, for `base`: the oldest span holding units, meaningless while the total is 0. */
  readonly #bases: Float64Array[] = [];

  /** True if no freed place is left: sweep for expired rows before using a new one. */
  get full(): boolean {
    return this.#free === NONE;
  }

  /** A row for a sliding rule takes two places, for a fixed one one. */
  allocate(sliding: boolean): number {
    const slot = this.#place();
    this.set(slot, SECOND, sliding ? this.#place() : NONE);
    return slot;
  }

  #place(): number {
    const slot = this.#free;
    if (slot !== NONE) {
      this.#free = this.get(slot, CHAIN);
      this.set(slot, CHAIN, 0);
      return slot;
    }
    if (this.#high >> CHUNK_BITS === this.#chunks.length) {
      const places = new Int32Array(STRIDE << CHUNK_BITS);
      this.#chunks.push(places);
      this.#bases.push(new Float64Array(places.buffer));
    }
    return this.#high++;
  }

  release(slot: number): void {
    const second = this.get(slot, SECOND);
    if (second !== NONE) this.#freePlace(second);
    this.#freePlace(slot);
  }

  #freePlace(slot: number): void {
    const o = (slot & CHUNK_MASK) * STRIDE;
    this.#chunks[slot >> CHUNK_BITS]!.fill(0, o, o + STRIDE);
    this.set(slot, CHAIN, this.#free);
    this.#free = slot;
  }

  placesOf(slot: number): number {
    return this.get(slot, SECOND) === NONE ? 1 : 2;
  }

  get(slot: number, field: number): number {
    return this.#chunks[slot >> CHUNK_BITS]![(slot & CHUNK_MASK) * STRIDE + field]!;
  }

  set(slot: number, field: number, value: number): void {
    this.#chunks[slot >> CHUNK_BITS]![(slot & CHUNK_MASK) * STRIDE + field] = value;
  }

  has(slot: number, flag: number): boolean {
    return (this.get(slot, META) & flag) !== 0;
  }

  mark(slot: number, flag: number, on: boolean): void {
    const meta = this.get(slot, META);
    this.set(slot, META, on ? meta | flag : meta & ~flag);
  }

  /** Whether this row counts for the rule of this number and the subject. */
  isNamed(slot: number, rule: number, subject: Int32Array): boolean {
    const row = this.#chunks[slot >> CHUNK_BITS]!;
    const o = (slot & CHUNK_MASK) * STRIDE;
    return (
      row[o + SUBJECT] === subject[0] &&
      row[o + SUBJECT + 1] === subject[1] &&
      row[o + SUBJECT + 2] === subject[2] &&
      row[o + SUBJECT + 3] === subject[3] &&
      row[o + RULE] === rule
    );
  }

  subjectOf(slot: number): Int32Array {
    const o = (slot & CHUNK_MASK) * STRIDE + SUBJECT;
    return this.#chunks[slot >> CHUNK_BITS]!.slice(o, o + 4);
  }

  setSubject(slot: number, subject: Int32Array): void {
    this.#chunks[slot >> CHUNK_BITS]!.set(subject, (slot & CHUNK_MASK) * STRIDE + SUBJECT);
  }

  /** Drops every span before `oldest` and returns the sum of the others. */
  expireBefore(slot: number, oldest: number): number {
    const o = (slot & CHUNK_MASK) * STRIDE;
    const total = this.#chunks[slot >> CHUNK_BITS]![o + TOTAL]!;
    if (total === 0 || this.#bases[slot >> CHUNK_BITS]![o >> 1]! >= oldest) return total;
    return this.#advance(slot, oldest);
  }

  /**
   * Moves `base` to the first span at or after `oldest` that holds units. Amortised: each span once per turn of the
   * ring.
   */
  #advance(slot: number, oldest: number): number {
    const meta = this.get(slot, META);
    let total = this.get(slot, TOTAL);
    let pos = meta & RING_MASK;
    let ahead = (meta >> RING_BITS) & RING_MASK;
    let base = this.oldest(slot);
    for (;;) {
      if (total === 0) [pos, ahead] = [0, 0];
      const units = total === 0 ? 0 : this.#units(slot, pos);
      if (total === 0 || (base >= oldest && units > 0)) break;
      total -= units;
      this.#setUnits(slot, pos, 0);
      base++;
      pos = next(pos);
      if (ahead > 0) ahead--;
    }
    this.set(slot, TOTAL, total);
    this.#setBase(slot, base);
    this.set(slot, META, (meta & FLAGS) | (ahead << RING_BITS) | pos);
    return total;
  }

  /** Books units into a span. */
  add(slot: number, span: number, units: number): void {
    const row = this.#chunks[slot >> CHUNK_BITS]!;
    const bases = this.#bases[slot >> CHUNK_BITS]!;
    const o = (slot & CHUNK_MASK) * STRIDE;
    const meta = row[o + META]!;
    const total = row[o + TOTAL]!;
    if (total === 0) bases[o >> 1] = span;
    const offset = (span - bases[o >> 1]!) | 0;
    let start = meta & RING_MASK;
    let ahead = (meta >> RING_BITS) & RING_MASK;
    let pos = start + offset;
    if (offset < 0) {
      // The row held only a lease that is booked ahead; this charge is before it.
      if (pos < 0) pos += SPANS;
      bases[o >> 1] = span;
      start = pos;
      ahead -= offset;
    } else {
      if (pos >= SPANS) pos -= SPANS;
      if (offset > ahead) ahead = offset;
    }
    row[o + META] = (meta & FLAGS) | CHARGED | (ahead << RING_BITS) | start;
    row[o + TOTAL] = total + units;
    if (pos < FIRST_SPANS) row[o + RING + pos] = row[o + RING + pos]! + units;
    else this.#setUnits(slot, pos, this.#units(slot, pos) + units);
  }

  /** Subtracts up to `units` from a span; a span that holds fewer becomes empty. */
  remove(slot: number, span: number, units: number): void {
    const total = this.get(slot, TOTAL);
    const offset = span - this.oldest(slot);
    if (total === 0 || offset < 0 || offset >= SPANS) return;
    const pos = ((this.get(slot, META) & RING_MASK) + offset) % SPANS;
    const held = this.#units(slot, pos);
    const back = Math.min(units, held);
    this.#setUnits(slot, pos, held - back);
    this.set(slot, TOTAL, total - back);
    this.#advance(slot, this.oldest(slot));
  }

  total(slot: number): number {
    return this.get(slot, TOTAL);
  }

  oldest(slot: number): number {
    return this.#bases[slot >> CHUNK_BITS]![((slot & CHUNK_MASK) * STRIDE) >> 1]!;
  }

  /** The newest span that may hold units. It may be too late (returned units do not move it), never too early. */
  newest(slot: number): number {
    return this.oldest(slot) + ((this.get(slot, META) >> RING_BITS) & RING_MASK);
  }

  /** The span whose expiry frees at least `units`: a denied call has to wait for it. */
  spanFreeing(slot: number, units: number): number {
    let span = this.oldest(slot);
    let freed = 0;
    for (const count of this.spans(slot)) {
      freed += count;
      if (freed >= units) return span;
      span++;
    }
    return span;
  }

  /** The counts from `base` to the newest span holding units, zeros between them included. */
  spans(slot: number): number[] {
    const counts: number[] = [];
    let left = this.get(slot, TOTAL);
    for (let pos = this.get(slot, META) & RING_MASK; left > 0; pos = next(pos)) {
      const units = this.#units(slot, pos);
      counts.push(units);
      left -= units;
    }
    return counts;
  }

  #units(slot: number, pos: number): number {
    return pos < FIRST_SPANS ? this.get(slot, RING + pos) : this.get(this.get(slot, SECOND), pos - FIRST_SPANS);
  }

  #setUnits(slot: number, pos: number, units: number): void {
    if (pos < FIRST_SPANS) this.set(slot, RING + pos, units);
    else this.set(this.get(slot, SECOND), pos - FIRST_SPANS, units);
  }

  #setBase(slot: number, base: number): void {
    this.#bases[slot >> CHUNK_BITS]![((slot & CHUNK_MASK) * STRIDE) >> 1] = base;
  }
}

/** The next position in the ring. */
function next(pos: number): number {
  return pos === SPANS - 1 ? 0 : pos + 1;
}
