// Deletes sessions, tokens and the state of the login throttle once they are of no use. Anyone can cause these rows.
import {
  countFailureRows,
  failureBeyond,
  reapLoginFailures,
  reapLoginNetworks,
  type FailureRows,
} from "../../store/queries/logins.ts";
import { reapTokens } from "../../store/queries/one-time-tokens.ts";
import { reapSessions } from "../../store/queries/sessions.ts";
import { reapSetupTokens } from "../../store/queries/setup-tokens.ts";
import type { Services } from "../core/context.ts";
import { deleteInPieces } from "../core/record.ts";
import { CONSECUTIVE_FAILURES_MAX } from "./login-throttle.ts";
import { DAY_MS } from "../../kernel/durations.ts";

const FAILURES_MAX = 100_000;
const FAILURES_KEPT_MS = 90 * DAY_MS;

/** Scheduled job. */
export async function reapLogins(services: Services): Promise<void> {
  const now = services.clock.now();
  const [week, month] = [now - 7 * DAY_MS, now - 30 * DAY_MS];
  await deleteInPieces(services, (tx, limit) => reapSessions.run(tx, { before: month, limit }));
  await deleteInPieces(services, (tx, limit) => reapTokens.run(tx, { before: week, limit }));
  await deleteInPieces(services, (tx, limit) => reapSetupTokens.run(tx, { before: week, limit }));
  await deleteInPieces(services, (tx, limit) => reapLoginNetworks.run(tx, { before: month, limit }));
  await trimLoginFailures(services);
}

/**
 * Deletes failures that are old, and beyond `kept` rows those of addresses with the fewest failures, oldest first: rows
 * of invented addresses must not displace the count of an address that is being guessed at. Those that have disabled
 * login stay: only a password reset clears them.
 */
export async function trimLoginFailures(services: Services, kept = FAILURES_MAX): Promise<void> {
  const { store, clock } = services;
  const all = CONSECUTIVE_FAILURES_MAX - 1;
  const reap = (before: number, most: number): Promise<number> =>
    deleteInPieces(services, (tx, limit) => reapLoginFailures.run(tx, { before, most, limit }));
  await reap(clock.now() - FAILURES_KEPT_MS, all);
  const counts = await store.readOnThread<FailureRows>(countFailureRows(store.read, CONSECUTIVE_FAILURES_MAX));
  const excess = counts.reduce((sum, { n }) => sum + n, 0) - kept;
  if (excess <= 0) return;
  let rows = 0;
  const last = counts.find(({ n }) => (rows += n) >= excess);
  const most = last?.consecutive ?? all;
  const [beyond] = await store.readOnThread<{ failed_at: number }>(failureBeyond(store.read, most, rows - excess));
  if (beyond) await reap(beyond.failed_at + 1, most);
}
