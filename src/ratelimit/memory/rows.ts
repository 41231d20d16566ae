// Counter rows in typed arrays: each a ring of span counts with their sum, so that a check needs no addition over
// spans. Caution: `expireBefore` must run before anything else touches a row at a new time; it keeps the nonzero spans
// within one ring's length of each other, and the first of them in `base`.
//
// A row is 72 Int32: `base` as a double over the first two, its position in the ring, the total, then 67 cells (60
// counted spans, the partial oldest one, 6 that leases book ahead) and one of padding. A check mostly touches the
// first cache line and one cell (bench: limiter/check). Counts fit: a row never holds more than a limit, at most 1e9.
import { SUB_WINDOWS, SUB_WINDOWS_AHEAD } from "../../kernel/ratelimit/window.ts";

const CELLS = SUB_WINDOWS + 1 + SUB_WINDOWS_AHEAD;
const POS = 2;
const TOTAL = 3;
const CELL = 4;
const STRIDE = 72;
// Rows are allocated in chunks: doubling one array could copy a quarter of a gigabyte within one request.
const CHUNK_BITS = 10;
const CHUNK_MASK = (1 << CHUNK_BITS) - 1;

/** The expiry of a free row: later than any clock, so that a sweep skips it. */
const FREE = Infinity;

export class CounterRows {
  /** High-water mark: every slot ever allocated is below it. */
  high = 0;
  /** When each row's last unit expires. It may be late (returned units do not move it), never early. */
  until = new Float64Array(1 << CHUNK_BITS).fill(FREE);
  readonly #chunks: Int32Array[] = [];
  /** The same bytes as doubles, for `base`: the oldest span holding units, meaningless while the total is 0. */
  readonly #bases: Float64Array[] = [];
  readonly #free: number[] = [];

  /** True when the next row needs another chunk: sweep for expired rows first. */
  get full(): boolean {
    return this.#free.length === 0 && (this.high & CHUNK_MASK) === 0;
  }

  allocate(): number {
    const slot = this.#free.pop() ?? this.high++;
    if (slot >> CHUNK_BITS === this.#chunks.length) {
      const rows = new Int32Array(STRIDE << CHUNK_BITS);
      this.#chunks.push(rows);
      this.#bases.push(new Float64Array(rows.buffer));
    }
    if (slot === this.until.length) this.until = widened(this.until, FREE);
    this.until[slot] = 0;
    return slot;
  }

  /** Extends a row's life to at least `until`. */
  keepUntil(slot: number, until: number): void {
    if (this.until[slot]! < until) this.until[slot] = until;
  }

  release(slot: number): void {
    const o = (slot & CHUNK_MASK) * STRIDE;
    this.#chunks[slot >> CHUNK_BITS]!.fill(0, o, o + STRIDE);
    this.until[slot] = FREE;
    this.#free.push(slot);
  }

  /** Drops every span before `oldest` and returns the sum of the others. */
  expireBefore(slot: number, oldest: number): number {
    const row = this.#chunks[slot >> CHUNK_BITS]!;
    const o = (slot & CHUNK_MASK) * STRIDE;
    const total = row[o + TOTAL]!;
    if (total === 0 || this.#bases[slot >> CHUNK_BITS]![o >> 1]! >= oldest) return total;
    return this.#advance(slot, oldest);
  }

  /**
   * Moves `base` to the first span at or after `oldest` that holds units. Amortised: each cell once per turn of the
   * ring.
   */
  #advance(slot: number, oldest: number): number {
    const row = this.#chunks[slot >> CHUNK_BITS]!;
    const bases = this.#bases[slot >> CHUNK_BITS]!;
    const o = (slot & CHUNK_MASK) * STRIDE;
    let total = row[o + TOTAL]!;
    let pos = row[o + POS]!;
    let base = bases[o >> 1]!;
    while (total > 0 && (base < oldest || row[o + CELL + pos] === 0)) {
      total -= row[o + CELL + pos]!;
      row[o + CELL + pos] = 0;
      base++;
      pos = next(pos);
    }
    row[o + TOTAL] = total;
    row[o + POS] = pos;
    bases[o >> 1] = base;
    return total;
  }

  /** Books units into a span; true when it held none before and `until` may have to move. */
  add(slot: number, span: number, units: number): boolean {
    const row = this.#chunks[slot >> CHUNK_BITS]!;
    const bases = this.#bases[slot >> CHUNK_BITS]!;
    const o = (slot & CHUNK_MASK) * STRIDE;
    const total = row[o + TOTAL]!;
    if (total === 0) bases[o >> 1] = span;
    const offset = (span - bases[o >> 1]!) | 0;
    let pos = row[o + POS]! + offset;
    if (offset < 0) {
      // The row held only a lease that is booked ahead; this charge is before it.
      if (pos < 0) pos += CELLS;
      bases[o >> 1] = span;
      row[o + POS] = pos;
    } else if (pos >= CELLS) pos -= CELLS;
    const before = row[o + CELL + pos]!;
    row[o + CELL + pos] = before + units;
    row[o + TOTAL] = total + units;
    return before === 0;
  }

  /** Subtracts up to `units` from a span; a span that holds fewer becomes empty. */
  remove(slot: number, span: number, units: number): void {
    const row = this.#chunks[slot >> CHUNK_BITS]!;
    const o = (slot & CHUNK_MASK) * STRIDE;
    const offset = span - this.oldest(slot);
    if (row[o + TOTAL] === 0 || offset < 0 || offset >= CELLS) return;
    const at = o + CELL + ((row[o + POS]! + offset) % CELLS);
    const back = Math.min(units, row[at]!);
    row[at] = row[at]! - back;
    row[o + TOTAL] = row[o + TOTAL]! - back;
    this.#advance(slot, this.oldest(slot));
  }

  oldest(slot: number): number {
    return this.#bases[slot >> CHUNK_BITS]![((slot & CHUNK_MASK) * STRIDE) >> 1]!;
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
    const row = this.#chunks[slot >> CHUNK_BITS]!;
    const o = (slot & CHUNK_MASK) * STRIDE;
    const counts: number[] = [];
    let left = row[o + TOTAL]!;
    for (let pos = row[o + POS]!; left > 0; pos = next(pos)) {
      counts.push(row[o + CELL + pos]!);
      left -= row[o + CELL + pos]!;
    }
    return counts;
  }
}

/** The next position in the ring. */
function next(pos: number): number {
  return pos === CELLS - 1 ? 0 : pos + 1;
}

function widened(column: Float64Array<ArrayBuffer>, empty: number): Float64Array<ArrayBuffer> {
  const wider = new Float64Array(column.length * 2).fill(empty);
  wider.set(column);
  return wider;
}
