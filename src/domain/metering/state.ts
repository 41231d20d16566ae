// What this process knows of the push: when it may try again, and what went wrong. The last outcome is stored, so that
// every process can show it.
import type { Settings } from "../../config/settings.ts";
import { DAY_MS, HOUR_MS } from "../../kernel/durations.ts";

const RETRY_FIRST_MS = 30_000;
const RETRY_MAX_MS = HOUR_MS;
/**
 * How long before its deletion an unsent hour makes the instance degraded, unless hours are kept for a short time only.
 */
const RISK_MS = 5 * DAY_MS;
/** The push tries at least as often, so that an hour that has been due for longer could not be sent. */
const OVERDUE_MS = RETRY_MAX_MS;

export type MeterOutcome = { last_sent_at: number | null; last_error: string | null; retry_at: number };

export class MeterState {
  /** Events that were set aside, since the start. */
  refused = 0;
  /** How often the receiver seemed to have an event already, by the id of what is not settled. */
  readonly conflicts = new Map<string, number>();
  retryAt = 0;
  lastError: string | null = null;
  lastSentAt: number | null = null;
  /** The hour whose coming loss was logged last. */
  warnedHour: number | null = null;
  #failures = 0;
  #running: Promise<void> = Promise.resolve();

  /** One push at a time: the job's and the operator's wait for each other. */
  run(work: () => Promise<void>): Promise<void> {
    const done = this.#running.then(work);
    this.#running = done.catch(() => {}); // reported to the caller
    return done;
  }

  succeeded(now: number): void {
    this.#failures = 0;
    this.retryAt = 0;
    this.lastError = null;
    this.lastSentAt = now;
  }

  get outcome(): MeterOutcome {
    return { last_sent_at: this.lastSentAt, last_error: this.lastError, retry_at: this.retryAt };
  }

  /** `retryAfterMs`: what the receiver asks for. */
  failed(now: number, error: string, retryAfterMs: number): void {
    const backOff = RETRY_FIRST_MS * 2 ** Math.min(this.#failures++, 20);
    this.retryAt = now + Math.min(RETRY_MAX_MS, Math.max(backOff, retryAfterMs));
    this.lastError = error;
  }
}

/** The first hour that is not due yet. */
export function dueBefore({ meter_settle }: Settings, now: number): number {
  return Math.floor((now - meter_settle) / HOUR_MS);
}

/** When the sums of an hour are deleted. */
export function lostAt({ series_hours }: Settings, hour: number): number {
  return (hour + 1) * HOUR_MS + series_hours;
}

/** An hour that is due and not sent. */
export type UnsentHour = { hour: number; dueAt: number };

/** Whether usage will be deleted soon. A report that comes late makes an old hour due; it is sent at once. */
export function isAtRisk(settings: Settings, { hour, dueAt }: UnsentHour, now: number): boolean {
  const left = lostAt(settings, hour) - now;
  return left < Math.min(RISK_MS, settings.series_hours / 2) && now - dueAt > OVERDUE_MS;
}
