// What exceeded a cap of the usage series or was ignored in this process, for /metrics.

export type OverflowKind = "outcome" | "route" | "tag" | "key";

/** Keys of a workspace with details in one hour. */
const KEYS_MAX = 20_000;

export class SeriesCounts {
  readonly overflow: Record<OverflowKind, number> = { outcome: 0, route: 0, tag: 0, key: 0 };
  /** Malformed optional fields of events. */
  readonly ignored: Record<string, number> = { cost: 0, tags: 0, network: 0, user_agent: 0 };
  keysMax = KEYS_MAX;

  countIgnored(fields: Readonly<Record<string, number>>): void {
    for (const [field, count] of Object.entries(fields)) this.ignored[field] = (this.ignored[field] ?? 0) + count;
  }
}
