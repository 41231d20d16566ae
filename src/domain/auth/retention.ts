// Deletes sessions, tokens and the state of the login throttle once they are of no use. Anyone can cause these rows.
import { failureBeyond, reapLoginFailures, reapLoginNetworks } from "../../store/queries/logins.ts";
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
 * Failures that are old, or beyond the newest `kept`. Those that have disabled login stay: only a password reset clears
 * them.
 */
export async function trimLoginFailures(services: Services, kept = FAILURES_MAX): Promise<void> {
  const beyond = await failureBeyond.first(services.store.read, { kept });
  const before = Math.max(services.clock.now() - FAILURES_KEPT_MS, (beyond?.failed_at ?? 0) + 1);
  const max = CONSECUTIVE_FAILURES_MAX;
  await deleteInPieces(services, (tx, limit) => reapLoginFailures.run(tx, { before, max, limit }));
}
