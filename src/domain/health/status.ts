// The health of each component and the worst of them, for /status. Never fails, and reads the database at most once in
// five seconds, at any request rate.
import { isFuture } from "../../kernel/durations.ts";
import { formatTimestampOrNull } from "../../kernel/timestamps.ts";
import { VERSION } from "../../platform/version.ts";
import type { Services } from "../core/context.ts";
import { isMeterLate } from "../metering/status.ts";
import { mailState } from "../mail/outbox.ts";
import { isKnownDamaged } from "./quick-check.ts";
import { NO_BACKUPS, RESTORE_TEST_AGE_MAX_MS, type BackupState, type Health, type Status } from "./state.ts";

const CACHE_MS = 5_000;
const DATABASE_WAIT_MS = 3_000;
const BACKLOG_HIGH = 1_000;
/** Another process takes over within this time. */
const LEADERLESS_MAX_MS = 15_000;

export function showStatus(services: Services): Promise<Status> {
  const { statusCache: cache, clock } = services;
  if (!cache.status || clock.now() >= cache.until) {
    cache.status = computeStatus(services);
    cache.until = clock.now() + CACHE_MS;
  }
  return cache.status;
}

async function computeStatus(services: Services): Promise<Status> {
  const database = await databaseHealth(services);
  const backups = await backupState(services);
  const components = {
    api: services.store.backlog >= BACKLOG_HIGH ? "degraded" : "ok",
    database,
    redis: redisHealth(services),
    worker: database !== "down" ? await workerHealth(services) : "unknown",
    backup: backups ? backupHealth(services, backups) : "unknown",
  } as const;
  const { lastRunAt, pass, backupId } = (backups ?? NO_BACKUPS).restoreTest;
  const restoreTest = { lastRunAt: formatTimestampOrNull(lastRunAt), pass, backupId };
  const versions = database !== "down" ? await connectedVersions(services) : [VERSION];
  return { status: worstOf(Object.values(components)), components, restoreTest, versions };
}

async function connectedVersions({ store }: Services): Promise<string[]> {
  try {
    return await store.connectedVersions();
  } catch {
    return [VERSION];
  }
}

function worstOf(all: readonly Health[]): Status["status"] {
  return all.includes("down") ? "down" : all.includes("degraded") ? "degraded" : "ok";
}

async function databaseHealth(services: Services): Promise<Health> {
  try {
    await services.store.ping(DATABASE_WAIT_MS);
    return services.writtenBytes.isDiskLow || (await isKnownDamaged(services)) ? "degraded" : "ok";
  } catch {
    return "down";
  }
}

/** Without Redis the in-process counters take over (degraded), unless the settings forbid it (down). */
function redisHealth({ counters, settings }: Services): Health {
  const { configured, ready } = counters.redisState();
  if (!configured) return "disabled";
  return ready ? "ok" : settings.ratelimit_on_redis_failure === "local" ? "degraded" : "down";
}

async function workerHealth(services: Services): Promise<Health> {
  try {
    const { dead } = await mailState(services);
    const { failing, leaderSeenAt = Number.POSITIVE_INFINITY } = services.worker;
    const isLeaderless = performance.now() - leaderSeenAt > LEADERLESS_MAX_MS;
    const isDegraded = dead > 0 || failing.size > 0 || isLeaderless || (await isMeterLate(services));
    return isDegraded ? "degraded" : "ok";
  } catch {
    return "unknown";
  }
}

/** Undefined when it cannot be determined. */
export async function backupState(services: Services): Promise<BackupState | undefined> {
  try {
    return services.backups ? await services.backups() : NO_BACKUPS;
  } catch {
    return undefined;
  }
}

/**
 * Degraded when backups or their tests cannot be made or are overdue, or when the last restore test failed or is older
 * than eight days. Without a schedule neither is ever overdue: backups made by hand or by another program may be stored
 * elsewhere, where the server cannot test them.
 */
export function backupHealth(
  { settings, clock }: Services,
  { lastSuccessAt, restoreTest, failing }: BackupState,
): Health {
  const { backup_every, restore_test_every } = settings;
  if (backup_every === null && lastSuccessAt === null) return "disabled";
  if (failing) return "degraded";
  if (lastSuccessAt === null) return "unknown";
  const now = clock.now();
  const isOverdue = isFuture(lastSuccessAt, now) || now - lastSuccessAt > 2 * (backup_every ?? Infinity);
  if (isOverdue || restoreTest.pass === false) return "degraded";
  const { lastRunAt } = restoreTest;
  if (backup_every === null || restore_test_every === null || lastRunAt === null) return "ok";
  return now - lastRunAt > RESTORE_TEST_AGE_MAX_MS ? "degraded" : "ok";
}
