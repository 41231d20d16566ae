// Who was refused in the last minutes, for `keyrack top`. Bounded: names at most 1,000 owners per minute.
import type { Owner } from "./owners.ts";
import { MINUTE_MS } from "../kernel/durations.ts";

const MINUTES_KEPT = 5;
const OWNERS_MAX = 1_000;

type Refusals = { readonly owner: Owner; count: number };

export class RecentRefusals {
  readonly #now: () => number;
  /** By minute, oldest first, then by owner. */
  readonly #minutes = new Map<number, Map<string, Refusals>>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  count(owner: Owner): void {
    const minute = this.#forget();
    const refused = this.#minutes.get(minute) ?? new Map<string, Refusals>();
    this.#minutes.set(minute, refused);
    const known = refused.get(owner.id);
    if (known) known.count++;
    else if (refused.size < OWNERS_MAX) refused.set(owner.id, { owner, count: 1 });
  }

  /** Sums by owner. */
  list(): Map<string, Refusals> {
    this.#forget();
    const sums = new Map<string, Refusals>();
    for (const { owner, count } of Array.from(this.#minutes.values()).flatMap((refused) => [...refused.values()])) {
      sums.set(owner.id, { owner, count: count + (sums.get(owner.id)?.count ?? 0) });
    }
    return sums;
  }

  #forget(): number {
    const minute = Math.floor(this.#now() / MINUTE_MS);
    for (const old of this.#minutes.keys()) if (old <= minute - MINUTES_KEPT) this.#minutes.delete(old);
    return minute;
  }
}
