// Which backups are kept: the newest of each of the last 7 days, 4 weeks and 12 months (UTC) that have one, and always
// the newest of all. Counted in days that have a backup: a month without any does not take the old ones away.
const DAY_MS = 24 * 3_600_000;

const KEPT: readonly [count: number, periodOf: (ms: number) => string][] = [
  [7, (ms) => new Date(ms).toISOString().slice(0, 10)],
  [4, (ms) => `week ${Math.floor((ms / DAY_MS + 3) / 7)}`], // 1970-01-01 was a Thursday; weeks begin on Monday
  [12, (ms) => new Date(ms).toISOString().slice(0, 7)],
];

export type Dated = { id: string; created_at: string };

/** The ids to keep. */
export function kept(backups: readonly Dated[]): Set<string> {
  const newestFirst = backups
    .map(({ id, created_at }) => ({ id, ms: Date.parse(created_at) }))
    .toSorted((a, b) => b.ms - a.ms || (a.id < b.id ? 1 : -1));
  const ids = new Set<string>();
  for (const [count, periodOf] of KEPT) {
    const periods = new Set<string>();
    for (const { id, ms } of newestFirst) {
      const period = periodOf(ms);
      if (periods.has(period)) continue;
      if (periods.size === count) break;
      periods.add(period);
      ids.add(id);
    }
  }
  return ids;
}
