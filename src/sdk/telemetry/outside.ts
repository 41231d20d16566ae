// What `verify` found and its caller does not see, for the report: whose key was refused, and requests from outside a
// key's networks. Their events have the network of the client, so that a list can be tried in
// report mode before it is enforced. The address itself never leaves the process.

import { networkOfAddress } from "../../kernel/network/cidr.ts";
import type { Decision, Outcome } from "../../kernel/policy/policy.ts";
import type { Context, Denied, Subject, Verdict } from "../context.ts";

/** `refused` is false in report mode. `network`: the /24 or /48 of the address, null when that is unknown. */
export type Outside = { readonly refused: boolean; readonly network: string | null };

export function outsideOf({ address }: Decision, outcome: Outcome): Outside {
  return { refused: outcome === "ip_not_allowed", network: networkOfAddress(address) };
}

/** The fields of an event. */
export function outsideFields({ refused, network }: Outside) {
  return refused ? { network } : { would_deny: "ip_not_allowed", network };
}

type Noted = { outside: Outside | null; subject: Subject | null };

/** What `verify` found beside its verdict, until the request is reported. */
export class NotedVerdicts {
  readonly #noted = new WeakMap<object, Noted>();

  /** Returns the verdict to hand out: a denial of its own, because those in the table are shared by all requests. */
  note(verdict: Verdict, outside: Outside | null, rejected: Subject | null): Verdict {
    if (verdict.ok) {
      this.#noted.set(verdict.context, { outside, subject: verdict.context });
      return verdict;
    }
    const own = { ...verdict };
    this.#noted.set(own, { outside, subject: rejected });
    return own;
  }

  of(verdict: Context | Denied | null): Noted | undefined {
    return verdict === null ? undefined : this.#noted.get(verdict);
  }
}
