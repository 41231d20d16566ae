// Details of a verdict for the report, not for the caller: whose key was refused, and from which network.

import type { Context, Denied, Subject, Verdict } from "../context.ts";
import type { OutsideNetworks } from "./network-report.ts";

type Noted = { outside: OutsideNetworks | null; subject: Subject | null };

/** What `verify` found in addition to its verdict, kept until the request is reported. */
export class NotedVerdicts {
  readonly #noted = new WeakMap<object, Noted>();

  /** Returns the verdict to hand out: a denial of its own, because those in the table are shared by all requests. */
  note(verdict: Verdict, outside: OutsideNetworks | null, rejected: Subject | null): Verdict {
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
