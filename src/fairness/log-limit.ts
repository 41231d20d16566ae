// Limits log lines about refused requests by network and kind of refusal: the first of a minute are written in full,
// the others become one summary.
import { MINUTE_MS } from "../kernel/durations.ts";

const FULL_MAX = 20;
const NETWORKS_MAX = 1_000;
const WINDOW_MS = MINUTE_MS;
/** Networks above the maximum share one summary. */
const OTHERS = "others";

/** How many lines were left out, and the request of the last one. */
export type Summary = { network: string; failure: string; count: number; request_id: string };

/** `keys`: those of the written lines, so no more than `FULL_MAX`. */
type Count = { written: number; leftOut: number; lastId: string; keys: Set<string> };

export class LogLimit {
  readonly #summarize: (summary: Summary) => void;
  readonly #networks = new Map<string, Map<string, Count>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(summarize: (summary: Summary) => void) {
    this.#summarize = summarize;
  }

  /** Whether this line is written in full; of those with the same `key`, one. The minute begins with the first line. */
  admits(network: string, failure: string, requestId: string, key?: string): boolean {
    const count = this.#countOf(network, failure);
    if (count.written >= FULL_MAX || (key !== undefined && count.keys.has(key))) {
      leaveOut(count, requestId);
      return false;
    }
    if (key !== undefined) count.keys.add(key);
    count.written++;
    return true;
  }

  /** Counts a refusal that is never written in full: many of them in a minute become a summary. */
  count(network: string, failure: string, requestId: string): void {
    leaveOut(this.#countOf(network, failure), requestId);
  }

  #countOf(network: string, failure: string): Count {
    if (this.#networks.size === 0) this.#timer = setTimeout(() => this.flush(), WINDOW_MS).unref();
    const isKnown = this.#networks.has(network) || this.#networks.size < NETWORKS_MAX;
    const counts = this.#countsOf(isKnown ? network : OTHERS);
    const written = isKnown ? 0 : FULL_MAX;
    const count = counts.get(failure) ?? { written, leftOut: 0, lastId: "", keys: new Set() };
    counts.set(failure, count);
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
      for (const [failure, { written, leftOut, lastId }] of counts) {
        if (leftOut > (written > 0 ? 0 : FULL_MAX))
          this.#summarize({ network, failure, count: leftOut, request_id: lastId });
      }
    }
  }
}

function leaveOut(count: Count, requestId: string): void {
  count.leftOut++;
  count.lastId = requestId;
}
