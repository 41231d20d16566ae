// Opens the services that need no data dir: an instance adds its vault, mail and addresses to them.
import { access, constants } from "node:fs/promises";
import { BadSetting, type Settings } from "../config/settings.ts";
import type { Clock } from "../domain/core/clock.ts";
import type { Services } from "../domain/core/context.ts";
import { createRecordIdGenerator } from "../domain/core/record-ids.ts";
import { Feed } from "../domain/policy/feed.ts";
import { PageCache } from "../domain/policy/page-cache.ts";
import { Passwords, type PasswordCost } from "../domain/auth/password.ts";
import { CredentialCache } from "../domain/auth/credential-cache.ts";
import { claimClock, databaseClaims } from "../domain/idempotency/claims.ts";
import { WrittenBytes } from "../domain/limits/written-bytes.ts";
import { KnownIds } from "../domain/ingest/known-ids.ts";
import { OverviewCache } from "../domain/workspaces/overview-cache.ts";
import { MeterState } from "../domain/metering/state.ts";
import { NodeRegistry } from "../domain/nodes/registry.ts";
import { SharedReads } from "../domain/nodes/shared-reads.ts";
import { QuotaBank } from "../domain/quotas/bank.ts";
import { newCounts } from "../domain/health/counts.ts";
import { openCounters, type Counters } from "../domain/limits/counters.ts";
import { Throttles } from "../domain/limits/throttles.ts";
import { fetchedKeys, keysInFile, ScannerKeys } from "../domain/leaks/scanner-keys.ts";
import { FairMap } from "../fairness/fair-map.ts";
import { LogLimit } from "../fairness/log-limit.ts";
import { FairSet } from "../fairness/fair-set.ts";
import { LargeResponses } from "../fairness/large-responses.ts";
import { Reservations } from "../fairness/reservations.ts";
import { FLEET_READS, Slots, THREAD_READS } from "../fairness/slots.ts";
import type { Shares } from "../fairness/shares.ts";
import type { ClaimStore } from "../kernel/idempotency.ts";
import type { Log } from "../platform/log.ts";
import type { Store } from "../store/store.ts";

type Base = {
  store: Store;
  clock: Clock;
  settings: Settings;
  shares: Shares;
  log: Log;
  /** Replaces the clocks of PostgreSQL and Redis if `clock` is injected. */
  externalNow: (() => number) | undefined;
  redisTimeoutMs: number | undefined;
  passwordCost: PasswordCost | undefined;
};

export async function openServices(base: Base, opened: AsyncDisposableStack) {
  const { store, clock, settings, shares, log, externalNow } = base;
  const counters = await openCounters({
    now: () => clock.steady(),
    places: shares.of("counters"),
    leases: shares.of("leases"),
    bounds: { counters: settings.ratelimit_counters_per_workspace },
    redisUrls: settings.redis_url,
    onRedisFailure: settings.ratelimit_on_redis_failure,
    onRedisChange: (error) => logRedisChange(log, settings, error),
    redisNow: externalNow,
    redisTimeoutMs: base.redisTimeoutMs,
  });
  opened.defer(() => counters.counter.close());
  const writtenBytes = new WrittenBytes({ store, clock, settings, ledger: shares.of("disk") });
  await writtenBytes.load();
  const claimNow = externalNow ?? claimClock(base);
  const claims = await openClaims(base, { claimNow, writtenBytes });
  opened.defer(() => claims.close());
  const largeResponses = new LargeResponses(shares.of("unsent"));
  return {
    ...newState(base),
    largeResponses,
    readSlots: {
      fleet: new Slots(FLEET_READS, shares.of("fleet_reads")),
      threads: new Slots(THREAD_READS, shares.of("usage_reads")),
    },
    sharedNodes: new SharedReads(),
    writtenBytes,
    bodies: {
      authenticated: new Reservations(shares.of("bodies")),
      anonymous: new Reservations(shares.of("anonymous_bodies")),
    },
    credentialCache: new CredentialCache({
      clock,
      ttlMs: settings.hot_auth_ttl_ms,
      ledger: shares.of("credentials"),
      store,
      log,
    }),
    feed: new Feed(store, shares.of("polls"), shares.of("heads"), new PageCache(shares.of("caches"), largeResponses)),
    nodes: nodeRegistry(base, writtenBytes),
    counters,
    quotas: quotaBank(base, counters),
    claims,
    claimNow,
    knownIds: new KnownIds(shares.of("known_ids")),
    touched: new FairMap(shares.of("touches")),
    notModified: new FairMap(shares.of("not_modified")),
    overviews: new OverviewCache(clock, shares.of("overviews")),
    meter: await openMeter(settings),
    scannerKeys: await openScannerKeys(base),
  } satisfies Partial<Services>;
}

/** State that is empty at the start of a process, and its counters. */
function newState({ store, clock, settings, shares, log, passwordCost }: Base) {
  return {
    store,
    clock,
    log,
    shares,
    newId: createRecordIdGenerator(clock),
    statusCache: { until: 0, status: undefined },
    setup: { claimed: false, unclaimedUntil: 0 },
    counts: newCounts(),
    shutdown: new AbortController(),
    securityLog: new LogLimit((summary) => log.info("refused, more of the same", summary)),
    throttles: new Throttles(clock, settings.throttle, shares.of("throttles")),
    passwords: new Passwords(shares.of("passwords"), passwordCost),
    waitingReceipts: new FairSet(shares.of("receipts"), (waiting) => waiting.end()),
    waitingHolders: new FairSet(shares.of("holder_receipts"), (waiting) => waiting.end()),
  } satisfies Partial<Services>;
}

function logRedisChange(log: Log, { ratelimit_on_redis_failure }: Settings, error: string | null): void {
  if (error === null) return log.info("redis can be reached again: rate limits are shared");
  const counted = ratelimit_on_redis_failure === "local" ? "counted by each process" : "refused";
  log.warn(`redis cannot be reached: rate limits are ${counted}`, { error });
}

function nodeRegistry({ store, clock, settings, shares, log }: Base, writtenBytes: WrittenBytes): NodeRegistry {
  return new NodeRegistry({
    store,
    clock,
    log,
    waiting: shares.of("nodes"),
    known: shares.of("known_nodes"),
    bounds: { perProject: settings.nodes_max, liveMs: settings.node_live_ms },
    writtenBytes,
  });
}

function quotaBank({ store, clock, shares, log }: Base, { sharedLeases }: Counters): QuotaBank {
  return new QuotaBank({
    store,
    clock,
    log,
    definitions: shares.of("quota_definitions"),
    balances: shares.of("quota_balances"),
    leases: shares.of("quota_leases"),
    returns: shares.of("quota_returns"),
    shared: sharedLeases,
  });
}

async function openMeter({ meter_url, meter_token_file }: Settings): Promise<MeterState> {
  if (meter_url !== null && meter_token_file)
    await access(meter_token_file, constants.R_OK).catch((error: NodeJS.ErrnoException) => {
      throw new BadSetting(`KEYRACK_METER_TOKEN_FILE cannot be read: ${error.code}.`);
    });
  return new MeterState();
}

/** A key file must be valid at the start. A URL is fetched at the first report, so it may be unreachable until then. */
async function openScannerKeys({ clock, settings, log }: Base): Promise<ScannerKeys | null> {
  const { scanner_keys_file: file, scanner_keys_url: url } = settings;
  if (url) return new ScannerKeys({ clock, log, load: fetchedKeys(url) });
  if (!file) return null;
  const load = keysInFile(file);
  await load().catch((error: Error) => {
    throw new BadSetting(`KEYRACK_SCANNER_KEYS_FILE cannot be used: ${error.message}.`);
  });
  return new ScannerKeys({ clock, log, load });
}

/** Idempotency claims are stored in the database, or in a Redis that does not lose acknowledged writes. */
async function openClaims(
  { store, settings, log, externalNow }: Base,
  forDatabase: Pick<Services, "claimNow" | "writtenBytes">,
): Promise<ClaimStore> {
  const { idempotency_store, redis_url } = settings;
  if (idempotency_store === "database") return databaseClaims({ store, ...forDatabase });
  const { RedisClaims } = await import("../ratelimit/redis/claims.ts");
  const { claims, refused } = await RedisClaims.open({
    urls: redis_url as string[], // requireConsistent has refused null
    forced: idempotency_store === "redis-forced",
    warn: (reason) => log.error("idempotency is refused: this Redis may lose claims", { reason }),
    ...(externalNow && { now: externalNow }),
  });
  if (refused === null) return claims;
  claims.close();
  throw new BadSetting(
    `Redis cannot keep idempotency records: ${refused}. Use a Redis with appendonly yes, appendfsync always and noeviction, or KEYRACK_IDEMPOTENCY_STORE=redis-forced.`,
  );
}
