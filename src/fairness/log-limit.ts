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

type Count = { seen: number; written: number; lastId: string };

export class LogLimit {
  readonly #summarize: (summary: Summary) => void;
  readonly #networks = new Map<string, Map<string, Count>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(summarize: (summary: Summary) => void) {
    this.#summarize = summarize;
  }

  /** Whether this line is written in full, one of the first `max`. The minute begins with the first line. */
  admits(network: string, failure: string, requestId: string, max = FULL_MAX): boolean {
    const count = this.count(network, failure, requestId);
    if (count.seen > max) return false;
    count.written++;
    return true;
  }

  /** Counts a refusal that is never written in full: many of them in a minute become a summary. */
  count(network: string, failure: string, requestId: string): Count {
    if (this.#networks.size === 0) this.#timer = setTimeout(() => this.flush(), WINDOW_MS).unref();
    const isKnown = this.#networks.has(network) || this.#networks.size < NETWORKS_MAX;
    const counts = this.#countsOf(isKnown ? network : OTHERS);
    const first = isKnown ? 0 : FULL_MAX;
    const count = counts.get(failure) ?? { seen: first, written: first, lastId: "" };
    counts.set(failure, count);
    count.seen++;
    count.lastId = requestId;
    return count;
  }

  #countsOf(network: string): Map<string, Count> {
    const counts = this.#networks.get(network) ?? new Map<string, Count>();
    this.#networks.set(network, counts);
    return counts;
  }

  /** Writes the summaries now: at the end of the minute, and when the server stops. */
  flush(): void {
    clearTimeout(this.#timer);
    const ended = [...this.#networks];
    this.#networks.clear();
    for (const [network, counts] of ended) {
      for (const [failure, { seen, written, lastId }] of counts) {
        if (seen > FULL_MAX) this.#summarize({ network, failure, count: seen - written, request_id: lastId });
      }
    }
  }
}
