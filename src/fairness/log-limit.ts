// Limits log lines about refused requests by network and kind of refusal: the first of a minute are written in full,
// the others become one summary.
import { MINUTE_MS } from "../kernel/durations.ts";

const FULL_MAX = 20;
const NETWORKS_MAX = 1_000;
const WINDOW_MS = MINUTE_MS;
/** Networks above the maximum share one summary. */
const OTHERS = "others";

/** How many lines were left out, and the last request of them. */
export type Summary = { network: string; failure: string; count: number; request_id: string };

type Count = { seen: number; lastId: string };

export class LogLimit {
  readonly #summarize: (summary: Summary) => void;
  readonly #networks = new Map<string, Map<string, Count>>();

  constructor(summarize: (summary: Summary) => void) {
    this.#summarize = summarize;
  }

  /** Whether this line is written in full. The minute begins with the first line. */
  admits(network: string, failure: string, requestId: string): boolean {
    if (this.#networks.size === 0) setTimeout(() => this.#flush(), WINDOW_MS).unref();
    const isKnown = this.#networks.has(network) || this.#networks.size < NETWORKS_MAX;
    const counts = this.#countsOf(isKnown ? network : OTHERS);
    const count = counts.get(failure) ?? { seen: isKnown ? 0 : FULL_MAX, lastId: "" };
    counts.set(failure, count);
    count.lastId = requestId;
    return ++count.seen <= FULL_MAX;
  }

  #countsOf(network: string): Map<string, Count> {
    const counts = this.#networks.get(network) ?? new Map<string, Count>();
    this.#networks.set(network, counts);
    return counts;
  }

  #flush(): void {
    const ended = [...this.#networks];
    this.#networks.clear();
    for (const [network, counts] of ended) {
      for (const [failure, { seen, lastId }] of counts) {
        if (seen > FULL_MAX) this.#summarize({ network, failure, count: seen - FULL_MAX, request_id: lastId });
      }
    }
  }
}
