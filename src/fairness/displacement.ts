// Makes room at the bound of a ledger: the largest owner's oldest items are cut for a smaller owner's.
import type { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";

type Item = { readonly owner: Owner };

/**
 * `held` is oldest first. `cut` must release the item. Returns false if room could only be made by cutting items of
 * this owner or of a smaller one.
 */
export function displaceFor<T extends Item>(
  owner: Owner,
  amount: number,
  ledger: Ledger,
  held: { values(): Iterable<T> },
  cut: (item: T) => void,
): boolean {
  while (ledger.used > 0 && ledger.used + amount > ledger.limits.bound) {
    const victim = ledger.victimFor(owner, amount);
    const oldest = victim && [...held.values()].find((item) => item.owner.id === victim.id);
    if (!victim || !oldest) return false;
    ledger.countRefusal(victim);
    cut(oldest);
  }
  return true;
}
