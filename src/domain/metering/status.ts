// What the push has not delivered yet, for the operator, /status and metrics.
import { HOUR_MS } from "../../kernel/durations.ts";
import { formatTimestamp, formatTimestampOrNull as time } from "../../kernel/timestamps.ts";
import { getJsonFact } from "../core/facts.ts";
import {
  countUnsettled,
  markReplayed,
  oldestChangedHour,
  oldestUnsettled,
  replayHour,
  retryRefused,
  unsettledHours,
} from "../../store/queries/metering.ts";
import { REFUSED, TO_SEND } from "../../store/usage/metered-hours.ts";
import type { Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import { refusedId } from "./events.ts";
import { dueBefore, isAtRisk, lostAt, type MeterOutcome, type UnsentHour } from "./state.ts";

const REFUSED_SHOWN = 100;

/**
 * The oldest hour with reports that no part has yet, and the oldest with a part that was not accepted. Each is due when
 * it has settled; a report that comes late makes an old hour due again. Events that were set aside do not count.
 */
async function unsentHours({ store, clock, settings }: Services): Promise<UnsentHour[]> {
  const now = clock.now();
  const due = { before: dueBefore(settings, now), changedBefore: now - settings.meter_settle };
  const hours = await Promise.all([
    oldestChangedHour.first(store.read, due),
    oldestUnsettled.first(store.read, TO_SEND),
  ]);
  return hours.flatMap((one) => {
    if (!one) return [];
    const { hour, changed_at } = one;
    return [{ hour, dueAt: Math.max((hour + 1) * HOUR_MS, changed_at ?? 0) + settings.meter_settle }];
  });
}

/** How long an hour has been due without having been sent. 0 without a push. */
export async function meterLagMs(services: Services): Promise<number> {
  const { settings, clock } = services;
  const hours = settings.meter_url === null ? [] : await unsentHours(services);
  return Math.max(0, ...hours.map(({ dueAt }) => clock.now() - dueAt));
}

async function hourAtRisk(services: Services): Promise<number | undefined> {
  const { settings, clock } = services;
  return (await unsentHours(services)).find((hour) => isAtRisk(settings, hour, clock.now()))?.hour;
}

/** Whether usage will be deleted soon without having been sent. */
export async function isMeterLate(services: Services): Promise<boolean> {
  return services.settings.meter_url !== null && (await hourAtRisk(services)) !== undefined;
}

/** One log line for each hour that is about to be lost. */
export async function warnOfLoss(services: Services): Promise<void> {
  const { settings, meter, log } = services;
  const hour = await hourAtRisk(services);
  if (hour === undefined || hour === meter.warnedHour) return;
  meter.warnedHour = hour;
  log.error("usage that was not pushed will be deleted; see keyrack meter status", {
    hour: formatTimestamp(hour * HOUR_MS),
    deleted_at: formatTimestamp(lostAt(settings, hour)),
  });
}

export async function showMeter(services: Services) {
  const { settings, meter, store } = services;
  const [unsent, unsettled, refused, refusedRows, stored] = await Promise.all([
    unsentHours(services),
    countUnsettled.first(store.read, TO_SEND),
    countUnsettled.first(store.read, REFUSED),
    unsettledHours.all(store.read, { ...REFUSED, limit: REFUSED_SHOWN }),
    getJsonFact<MeterOutcome>(store.read, "meter"),
  ]);
  const hour = unsent.length === 0 ? null : Math.min(...unsent.map((one) => one.hour));
  const outcome = stored ?? meter.outcome;
  return {
    object: "meter" as const,
    url: settings.meter_url,
    oldest_unsent_hour: time(hour === null ? null : hour * HOUR_MS),
    deleted_at: time(hour === null ? null : lostAt(settings, hour)),
    unsettled: unsettled?.rows ?? 0,
    refused: refused?.rows ?? 0,
    refused_ids: refusedRows.map(refusedId),
    last_sent_at: time(outcome.last_sent_at),
    last_error: outcome.last_error,
    next_attempt_at: time(outcome.retry_at === 0 ? null : outcome.retry_at),
  };
}

export type MeterView = Awaited<ReturnType<typeof showMeter>>;

/** Sends the events that were set aside again. Returns of how many hours. */
export function retryMeter(services: Services): Promise<number> {
  return record(services, (tx) => retryRefused.run(tx, {}));
}

/**
 * Sends every part of the hours from `from` up to `to` again, under the same ids. Returns of how many hours of tenants.
 */
export async function replayMeter(services: Services, from: number, to: number): Promise<number> {
  const { clock, settings } = services;
  const now = clock.now();
  const first = Math.floor(Math.max(from, now - settings.series_hours) / HOUR_MS);
  let hours = 0;
  for (let hour = first; hour < Math.ceil(Math.min(to, now) / HOUR_MS); hour++)
    hours += await record(services, async (tx) => {
      await markReplayed.run(tx, { hour, now });
      return replayHour.run(tx, { hour });
    });
  return hours;
}
