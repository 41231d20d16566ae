// Units of quotas that were admitted while the control plane could not be asked: charged with the next call for the
// key, or at the end. A call without a response may have charged them, so they are sent again under the same id, with
// those that were added since; under one id the control plane charges each unit once. Bounded: what is owed for the key
// that has waited longest is given up.

import { BoundedMap } from "../../kernel/bounded-map.ts";
import { DAY_MS } from "../../kernel/durations.ts";
import type { Context } from "../context.ts";

const KEYS_MAX = 10_000;
/** Maximum units in one call. */
const OWED_MAX = 1_000_000;
/** Less than the 8 days for which the control plane knows an id. */
const ID_MS = 7 * DAY_MS;

export type Report = { readonly id: string; readonly units: number };

/** `sent`: the report without a response, and since when its id is used. */
type Debt = { readonly context: Context; units: number; sent: (Report & { since: number; isPending: boolean }) | null };

export class OwedUnits {
  readonly #debts = new BoundedMap<string, Debt>({ max: KEYS_MAX });
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  add(context: Context, units: number): void {
    if (units === 0 || context.keyId === null) return;
    const debt = this.#debts.get(context.keyId) ?? { context, units: 0, sent: null };
    debt.units = Math.min(OWED_MAX, debt.units + units);
    this.#debts.set(context.keyId, debt);
  }

  /** What is to be charged for a key; null while another call charges it. The caller settles it. */
  take({ keyId }: Context): Report | null {
    const debt = keyId === null ? undefined : this.#debts.get(keyId);
    if (!debt || debt.sent?.isPending) return null;
    const now = this.#now();
    if (debt.sent && now - debt.sent.since >= ID_MS) {
      debt.units -= debt.sent.units; // they may have been charged
      debt.sent = null;
    }
    if (debt.units === 0) return null;
    const { id, since } = debt.sent ?? { id: crypto.randomUUID(), since: now };
    debt.sent = { id, since, units: debt.units, isPending: true };
    return debt.sent;
  }

  settle({ keyId }: Context, { id, units }: Report, isCharged: boolean): void {
    const debt = keyId === null ? undefined : this.#debts.get(keyId);
    if (keyId === null || debt?.sent?.id !== id) return;
    debt.sent.isPending = false;
    if (!isCharged) return;
    debt.sent = null;
    debt.units -= units;
    if (debt.units === 0) this.#debts.delete(keyId);
  }

  /** Keys with units that no call is charging yet. */
  contexts(): Context[] {
    return Array.from(this.#debts.values())
      .filter(({ units, sent }) => units > 0 && !sent?.isPending)
      .map(({ context }) => context);
  }
}
