// Deletes usage series that have expired: minutes, hours and days each after their own time.
import { chunked } from "../../kernel/chunks.ts";
import { LoopShare } from "../../platform/event-loop.ts";
import { reapMeteredHours, reapUsageHours } from "../../store/queries/metering.ts";
import { dropEmptyGroups, groupIdsAfter, lockRollups, reapRollups, reapSeenNames } from "../../store/queries/series.ts";
import type { Services } from "../core/context.ts";
import { deleteInPieces, record } from "../core/record.ts";
import { BUCKET_MS } from "./buckets.ts";
import { GRAIN } from "./rollups.ts";
import { DAYS_KEPT } from "../usage/usage.ts";

const GROUPS_AT_ONCE = 200;
/** On PostgreSQL a statement is a round trip, on SQLite it blocks the event loop. */
const GROUPS_A_STATEMENT = { sqlite: 20, postgres: GROUPS_AT_ONCE };
/** Events are accepted up to seven days late. */
const SEEN_KEPT_MS = 9 * BUCKET_MS.day;

/** Scheduled job. A group without rows is deleted with them. */
export async function reapSeries(services: Services): Promise<void> {
  const { clock, settings, store } = services;
  const now = clock.now();
  const before = {
    [GRAIN.minute]: Math.floor((now - settings.series_minutes) / BUCKET_MS.hour),
    [GRAIN.hour]: Math.floor((now - settings.series_hours) / BUCKET_MS.hour),
    [GRAIN.day]: Math.floor(now / BUCKET_MS.day) - DAYS_KEPT,
  };
  const loop = new LoopShare();
  for (let after = 0; !services.shutdown.signal.aborted; ) {
    const groups = await groupIdsAfter.all(store.read, { after, limit: GROUPS_AT_ONCE });
    if (groups.length === 0) break;
    await record(services, async (tx) => {
      await lockRollups.run(tx, { at: String(now) });
      for (const some of chunked(groups, GROUPS_A_STATEMENT[tx.dialect])) {
        const ids = JSON.stringify(some.map(({ id }) => id));
        for (const grain of Object.values(GRAIN))
          await reapRollups.run(tx, { groups: ids, grain, before: before[grain] });
        await dropEmptyGroups.run(tx, { groups: ids });
        await loop.yieldIfDue();
      }
    });
    after = groups.at(-1)?.id ?? after;
  }
  await deleteInPieces(services, (tx, limit) => reapMeteredHours.run(tx, { before: before[GRAIN.hour], limit }));
  await deleteInPieces(services, (tx, limit) => reapUsageHours.run(tx, { before: before[GRAIN.hour], limit }));
  await deleteInPieces(services, (tx, limit) => reapSeenNames.run(tx, { before: now - SEEN_KEPT_MS, limit }));
}
