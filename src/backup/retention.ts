// Which backups are kept: the newest of each of the last 7 days, 4 weeks and 12 months (UTC) that have one, and always
// the newest of all. Periods without a backup do not count, so a month without backups does not remove older ones. A
// backup from before a migration is the way back from an upgrade: it is kept for 30 days beside these, and then counts
// as any other. So is the newest of each schema, which an operator may have made before an upgrade.
import { renameSync } from "node:fs";
import { join } from "node:path";
import { formatTimestamp } from "../kernel/timestamps.ts";
import { removeLarge } from "../platform/fsync.ts";
import { codeOf } from "../platform/errors.ts";
import { backupDir, BackupRefused, isOwn, isPreMigration, listBackups, type BackupSettings } from "./files.ts";
import { conditionOf, isUsable } from "./list.ts";
import { DAY_MS, isFuture } from "../kernel/durations.ts";

const ROLLBACK_MS = 30 * DAY_MS;
/** A fault that every backup has must not fill the disk. */
const FAILED_KEPT = 3;

const PERIODS: readonly [count: number, periodOf: (ms: number) => string][] = [
  [7, (ms) => new Date(ms).toISOString().slice(0, 10)],
  [4, (ms) => `week ${Math.floor((ms / DAY_MS + 3) / 7)}`], // 1970-01-01 was a Thursday; weeks begin on Monday
  [12, (ms) => new Date(ms).toISOString().slice(0, 7)],
];

export type DatedBackup = { id: string; created_at: string; schema_version?: number };

const isForRollback = ({ id, created_at }: DatedBackup, now: number): boolean =>
  isPreMigration(id) && now - Date.parse(created_at) < ROLLBACK_MS;

/** The ids to keep. */
export function selectKept(backups: readonly DatedBackup[], now = Date.now()): Set<string> {
  const newestFirst = backups
    .filter((each) => !isForRollback(each, now))
    .map(({ id, created_at, schema_version }) => ({ id, schema_version, ms: Date.parse(created_at) }))
    .toSorted((a, b) => b.ms - a.ms || (a.id < b.id ? 1 : -1));
  const ids = new Set(backups.filter((each) => isForRollback(each, now)).map(({ id }) => id));
  for (const [count, periodOf] of PERIODS) {
    const periods = new Set<string>();
    for (const { id, ms } of newestFirst) {
      const period = periodOf(ms);
      if (periods.has(period)) continue;
      if (periods.size === count) break;
      periods.add(period);
      ids.add(id);
    }
  }
  const schemas = new Set<number | undefined>();
  for (const { id, ms, schema_version } of newestFirst) {
    if (!schemas.has(schema_version) && now - ms < ROLLBACK_MS) ids.add(id);
    schemas.add(schema_version);
  }
  return ids;
}

/** The ids to keep when one more is made now. The newest stays until that has succeeded. */
function selectKeptWithNext(newestFirst: readonly DatedBackup[], now: number): Set<string> {
  const next = { id: "", created_at: formatTimestamp(now) };
  const kept = selectKept([...newestFirst, next], now);
  const newest = newestFirst.find(({ created_at }) => !isFuture(Date.parse(created_at), now)) ?? newestFirst[0];
  if (newest) kept.add(newest.id);
  kept.delete(next.id);
  return kept;
}

export type Pruned = { object: "backup_prune"; kept: string[]; removed: string[]; dry_run: boolean };

type PruneOptions = {
  deploymentId: string | null;
  dryRun?: boolean;
  now?: number;
  /** Make room for a backup that is made next: remove what it puts past retention, but not the newest there is. */
  forNext?: boolean;
};

/**
 * Removes backups of this deployment that are past retention. Damaged ones and the newest failed ones stay as
 * evidence, and do not count as backups. While none is usable, all failed ones stay: they may be the only data left.
 */
export async function pruneBackups(settings: BackupSettings, options: PruneOptions): Promise<Pruned> {
  const { deploymentId, dryRun = false, now = Date.now(), forNext = false } = options;
  const dir = backupDir(settings);
  const readable = listBackups(dir).filter((each) => each.manifest !== null);
  const own = readable.filter((each) => isOwn(each, deploymentId));
  const usable = own.filter(isUsable).map(({ manifest }) => manifest);
  const kept = forNext ? selectKeptWithNext(usable, now) : selectKept(usable, now);
  const failed = own.filter((each) => conditionOf(each) === "failed").slice(usable.length > 0 ? FAILED_KEPT : Infinity);
  const expired = failed.filter(({ manifest }) => !isForRollback(manifest, now));
  const removed = [...usable.filter(({ id }) => !kept.has(id)), ...expired].map(({ id }) => id);
  if (!dryRun) for (const id of removed) await removeBackup(dir, id);
  return { object: "backup_prune", kept: [...kept], removed, dry_run: dryRun };
}

/** Renames first: an interrupted removal leaves nothing that is named like a backup. */
async function removeBackup(dir: string, id: string): Promise<void> {
  try {
    renameSync(join(dir, id), join(dir, `.${id}`));
    await removeLarge(join(dir, `.${id}`));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return; // removed by the schedule and by a command at the same time
    throw new BackupRefused(`Backup ${id} cannot be removed from ${dir}: ${codeOf(error)}.`);
  }
}
