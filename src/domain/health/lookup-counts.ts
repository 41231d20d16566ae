// Keys that were looked up since the start of the process, for /metrics. `other`: not an API key.
export type LookupOutcome = "admitted" | "refused" | "unknown" | "other";
export type LookupCounts = Record<LookupOutcome, number>;

export function newLookupCounts(): LookupCounts {
  return { admitted: 0, refused: 0, unknown: 0, other: 0 };
}
