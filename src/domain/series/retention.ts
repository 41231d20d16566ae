// Deletes usage series that have expired: minutes, hours and days each after their own time.
import { reapMeteredHours, reapUsageHours } from "../../store/queries/metering.ts";
import { dropEmptyGroups, groupsAfter, lockRollups, reapRollups, reapSeenNames } from "../../store/queries/series.ts";
import type { Services } from "../core/context.ts";
import { inPieces, reap } from "../core/record.ts";
import { BUCKET_MS } from "./buckets.ts";
import { GRAIN } from "./rollups.ts";
import { DAYS_KEPT } from "../usage/usage.ts";

type Grain = keyof typeof GRAIN;
const GRAINS = Object.keys(GRAIN) as Grain[];
const GROUPS_AT_ONCE = 200;
/** Events are accepted up to seven days late. */
const SEEN_KEPT_MS = 9 * BUCKET_MS.day;

/** Scheduled job. A group without rows is deleted with them. */
export async function reapSeries(services: Services): Promise<void> {
  const { clock, settings, store } = services;
  const now = clock.now();
  const before = {
    minute: Math.floor((now - settings.series_minutes) / BUCKET_MS.hour),
    hour: Math.floor((now - settings.series_hours) / BUCKET_MS.hour),
    day: Math.floor(now / BUCKET_MS.day) - DAYS_KEPT,
  };
  for (let after = 0; !services.shutdown.signal.aborted; ) {
    const groups = await groupsAfter.all(store.read, { after, limit: GROUPS_AT_ONCE, ...GRAIN });
    const due = groups.filter((group) => isDue(group, before)).map(({ id }) => id);
    if (due.length > 0) await reapGroups(services, due, before);
    if (groups.length < GROUPS_AT_ONCE) break;
    after = groups.at(-1)?.id ?? after;
  }
  await reap(services, reapMeteredHours, { before: before.hour });
  await reap(services, reapUsageHours, { before: before.hour });
  await reap(services, reapSeenNames, { before: now - SEEN_KEPT_MS });
}

/** A group has expired rows, or none at all. */
function isDue(oldest: Record<Grain, number | null>, before: Record<Grain, number>): boolean {
  if (GRAINS.every((grain) => oldest[grain] === null)) return true;
  return GRAINS.some((grain) => (oldest[grain] ?? Infinity) < before[grain]);
}

/** The rows of all grains together make a piece: after a long stop, a group may have thousands. */
async function reapGroups(services: Services, ids: readonly number[], before: Record<Grain, number>): Promise<void> {
  const groups = JSON.stringify(ids);
  await inPieces(services, async (tx, limit) => {
    await lockRollups.run(tx, { at: String(services.clock.now()) });
    let deleted = 0;
    for (const grain of GRAINS) {
      const due = { groups, grain: GRAIN[grain], before: before[grain], limit: limit - deleted };
      if (due.limit > 0) deleted += await reapRollups.run(tx, due);
    }
    if (deleted < limit) await dropEmptyGroups.run(tx, { groups });
    return deleted;
  });
}
