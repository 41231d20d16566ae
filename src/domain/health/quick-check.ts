// SQLite's quick check of the live database, once a week in a worker thread: a restore test checks a copy, whose
// indexes are new. Damage stays reported until a later check finds none.
import { DAY_MS, isFuture } from "../../kernel/durations.ts";
import { quickCheck } from "../../store/offline/thread-tasks.ts";
import { getJsonFact, setFact } from "../core/facts.ts";
import type { Services } from "../core/context.ts";

const EVERY_MS = 7 * DAY_MS;
const FINDINGS_CHARS = 2_000;

/** The value of the fact `quick_check`. */
type QuickCheck = { at: number; finding: string | null };

const lastQuickCheck = ({ store }: Services): Promise<QuickCheck | null> => getJsonFact(store.read, "quick_check");

export async function isKnownDamaged(services: Services): Promise<boolean> {
  return ((await lastQuickCheck(services))?.finding ?? null) !== null;
}

/** A damaged database is checked again every day, so that a repaired one is not reported for a week. */
export async function runDueQuickCheck(services: Services): Promise<void> {
  const { store, clock, log } = services;
  if (store.target.kind !== "sqlite") return;
  const last = await lastQuickCheck(services);
  const now = clock.now();
  if (last && !isFuture(last.at, now) && now - last.at < (last.finding === null ? EVERY_MS : DAY_MS)) return;
  const findings = await quickCheck(store.target.file);
  if (findings.length > 0)
    log.error("quick check found damage: restore a backup", { findings: findings.join("; ").slice(0, FINDINGS_CHARS) });
  const value = JSON.stringify({ at: now, finding: findings[0] ?? null } satisfies QuickCheck);
  await setFact(services, "quick_check", value);
}
