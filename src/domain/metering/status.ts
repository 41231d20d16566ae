// What the push has not delivered yet, for the operator, /status and metrics.
import { HOUR_MS } from "../../kernel/durations.ts";
import { formatTimestamp, formatTimestampOrNull as time } from "../../kernel/timestamps.ts";
import { getJsonFact } from "../core/facts.ts";
import {
  oldestChangedHour,
  replayHour,
  retryRefused,
  unsettledHours,
  unsettledState,
} from "../../store/queries/metering.ts";
import { REFUSED, TO_SEND } from "../../store/usage/metered-hours.ts";
import type { Services } from "../core/context.ts";
import { record } from "../core/record.ts";
import { refusedId } from "./events.ts";
import { dueBefore, isAtRisk, lostAt, type MeterOutcome } from "./state.ts";

const REFUSED_SHOWN = 100;

/** The oldest hour that is due and not sent; null: none. Events that were set aside do not count. */
export async function oldestUnsentHour({ store, clock, settings }: Services): Promise<number | null> {
  const now = clock.now();
  const due = { before: dueBefore(settings, now), changedBefore: now - settings.meter_settle };
  const [changed, unsettled] = await Promise.all([
    oldestChangedHour.first(store.read, due),
    unsettledState.first(store.read, TO_SEND),
  ]);
  const hours = [changed?.hour, unsettled?.oldest].filter((hour) => typeof hour === "number");
  return hours.length === 0 ? null : Math.min(...hours);
}

/** Since when the oldest unsent hour is due. 0 without a push. */
export async function meterLagMs(services: Services): Promise<number> {
  const { settings, clock } = services;
  const hour = settings.meter_url === null ? null : await oldestUnsentHour(services);
  return hour === null ? 0 : Math.max(0, clock.now() - (hour + 1) * HOUR_MS - settings.meter_settle);
}

/** Whether usage will be deleted soon without having been sent. */
export async function isMeterLate(services: Services): Promise<boolean> {
  const { settings, clock } = services;
  const hour = settings.meter_url === null ? null : await oldestUnsentHour(services);
  return hour !== null && isAtRisk(settings, hour, clock.now());
}

/** One log line for each hour that is about to be lost. */
export async function warnOfLoss(services: Services): Promise<void> {
  const { settings, meter, clock, log } = services;
  const hour = await oldestUnsentHour(services);
  if (hour === null || hour === meter.warnedHour || !isAtRisk(settings, hour, clock.now())) return;
  meter.warnedHour = hour;
  log.error("usage that was not pushed will be deleted; see keyrack meter status", {
    hour: formatTimestamp(hour * HOUR_MS),
    deleted_at: formatTimestamp(lostAt(settings, hour)),
  });
}

export async function showMeter(services: Services) {
  const { settings, meter, store } = services;
  const [hour, unsettled, refused, refusedRows, stored] = await Promise.all([
    oldestUnsentHour(services),
    unsettledState.first(store.read, TO_SEND),
    unsettledState.first(store.read, REFUSED),
    unsettledHours.all(store.read, { ...REFUSED, limit: REFUSED_SHOWN }),
    getJsonFact<MeterOutcome>(store.read, "meter"),
  ]);
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
    hours += await record(services, (tx) => replayHour.run(tx, { hour }));
  return hours;
}
