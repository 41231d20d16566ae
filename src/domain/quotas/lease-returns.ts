// Returns of leases: their unused units go back to the quotas, once, and until a minute after the lease's end.
import type { Owner } from "../../fairness/owners.ts";
import { ownerOf } from "../core/actor.ts";
import type { Machine, Services } from "../core/context.ts";
import { RETURNED } from "./bank.ts";
import { Holding } from "./holding.ts";
import { claimReturn, returnsOf } from "./lease-records.ts";

/** Returns how many units were given back. */
export async function returnToQuotas({ services, actor }: Machine, lease_id: string, unused: number): Promise<number> {
  const { quotas, store, clock } = services;
  const { workspace_id } = actor;
  const owner = ownerOf(actor);
  const own = quotas.leases.find(workspace_id, lease_id);
  const { shared } = quotas.leases;
  if (shared && own?.isShared !== false) {
    const record = await shared.take(workspace_id, lease_id);
    if (record === null || !(await claimReturn(store, owner, lease_id, clock.now()))) return 0;
    // Only what balances show depends on it: until the lease ends, its units would be held and given back.
    if (!own) store.notify(RETURNED, lease_id).catch(() => {});
    if (!own) return returnRecord(services, owner, workspace_id, returnsOf(record, unused, clock.now()));
  }
  const { units, applied } = quotas.leases.return(workspace_id, lease_id, unused, clock.now());
  for (const { holding, metered } of applied) {
    const isKept = quotas.find(metered) === holding;
    if (!isKept || holding.shed(metered.quota)) await quotas.giveBack(holding, !isKept);
  }
  return units;
}

/** Returns units of a lease that another process granted. */
async function returnRecord(
  { quotas, clock }: Services,
  owner: Owner,
  workspace_id: string,
  { units, charges }: ReturnType<typeof returnsOf>,
): Promise<number> {
  if (units === 0) return 0;
  for (const { metered, returns } of charges) {
    const holding = quotas.find(metered) ?? new Holding({ metered, workspace_id, owner, now: clock.now() });
    holding.isTransient = quotas.find(metered) === undefined;
    holding.putBack(returns);
    await quotas.giveBack(holding, false);
  }
  return units;
}
