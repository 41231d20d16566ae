// Deletes sessions, tokens and the state of the login throttle once they are of no use. Anyone can cause these rows.
import { countFailureRows, failureBeyond, reapLoginFailures, reapLoginNetworks } from "../../store/queries/logins.ts";
import { reapTokens } from "../../store/queries/one-time-tokens.ts";
import { reapSessions } from "../../store/queries/sessions.ts";
import { reapSetupTokens } from "../../store/queries/setup-tokens.ts";
import type { Services } from "../core/context.ts";
import { threadReader } from "../core/read-slots.ts";
import { reap } from "../core/record.ts";
import { CONSECUTIVE_FAILURES_MAX } from "./login-throttle.ts";
import { DAY_MS } from "../../kernel/durations.ts";

const FAILURES_MAX = 100_000;
const FAILURES_KEPT_MS = 90 * DAY_MS;

/** Scheduled job. */
export async function reapLogins(services: Services): Promise<void> {
  const now = services.clock.now();
  const [week, month] = [now - 7 * DAY_MS, now - 30 * DAY_MS];
  await reap(services, reapSessions, { before: month });
  await reap(services, reapTokens, { before: week });
  await reap(services, reapSetupTokens, { before: week });
  await reap(services, reapLoginNetworks, { before: month });
  await trimLoginFailures(services);
}

/**
 * Deletes failures that are old, and beyond `kept` rows those of addresses with the fewest failures, oldest first: rows
 * of invented addresses must not displace the count of an address that is being guessed at. Those that have disabled
 * login stay: only a password reset clears them.
 */
export async function trimLoginFailures(services: Services, kept = FAILURES_MAX): Promise<void> {
  const { clock } = services;
  const reader = threadReader(services.store);
  const all = CONSECUTIVE_FAILURES_MAX - 1;
  await reap(services, reapLoginFailures, { before: clock.now() - FAILURES_KEPT_MS, most: all });
  const counts = await countFailureRows(reader, CONSECUTIVE_FAILURES_MAX);
  const excess = counts.reduce((sum, { n }) => sum + n, 0) - kept;
  if (excess <= 0) return;
  let rows = 0;
  const last = counts.find(({ n }) => (rows += n) >= excess);
  const most = last?.consecutive ?? all;
  const beyond = await failureBeyond(reader, most, rows - excess);
  if (beyond) await reap(services, reapLoginFailures, { before: beyond.failed_at + 1, most });
}
