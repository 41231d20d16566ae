// Units of quotas that were admitted while the control plane could not be asked: charged with the next call for the key, or at
// the end. Bounded: what is owed for the key that has waited longest is given up.

import { BoundedMap } from "../../kernel/lru.ts";
import type { Context } from "../context.ts";

const KEYS_MAX = 10_000;
/** Of one call. */
const OWED_MAX = 1_000_000;

type Debt = { context: Context; units: number };

export class OwedUnits {
  readonly #debts = new BoundedMap<string, Debt>({ max: KEYS_MAX });

  add(context: Context, units: number): void {
    if (units === 0 || context.keyId === null) return;
    const before = this.#debts.get(context.keyId)?.units ?? 0;
    this.#debts.set(context.keyId, { context, units: Math.min(OWED_MAX, before + units) });
  }

  /** What is owed for a key. The caller adds it again if it could not be charged. */
  take(context: Context): number {
    if (context.keyId === null) return 0;
    const units = this.#debts.get(context.keyId)?.units ?? 0;
    this.#debts.delete(context.keyId);
    return units;
  }

  /** The keys that owe something. */
  contexts(): Context[] {
    return Array.from(this.#debts.values(), ({ context }) => context);
  }
}
