// Requests from outside a key's networks. Their events have the network of the client, so that a list can be tried in
// report mode before it is enforced. The address itself never leaves the process.

import { networkOfAddress } from "../../kernel/network/cidr.ts";
import type { Decision, Outcome } from "../../kernel/policy/policy.ts";

/** `refused` is false in report mode. `network`: the /24 or /48 of the address, null when that is unknown. */
export type OutsideNetworks = { readonly refused: boolean; readonly network: string | null };

export function outsideOf({ address }: Decision, outcome: Outcome): OutsideNetworks {
  return { refused: outcome === "ip_not_allowed", network: networkOfAddress(address) };
}

/** The fields of an event. */
export function outsideFields({ refused, network }: OutsideNetworks) {
  return refused ? { network } : { would_deny: "ip_not_allowed", network };
}
