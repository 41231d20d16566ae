// The counter store when Redis is configured: Redis first, in process while it does not respond.
// Caution: the two stores share nothing, so while Redis is away each process counts for itself; `store` says so in
// every result, and an operator who prefers refusals sets `error` (docs/design/0011-fail-modes.md).
import { OutageReports, type OnOutage } from "../fairness/outage-reports.ts";
import { fail } from "../kernel/errors.ts";
import { CircuitBreaker } from "./redis/circuit-breaker.ts";
import { classifyRedisError, type RedisError } from "./redis/error.ts";
import type { CheckRequest, Counter, Lease, LeaseRequest, SharedLeases, Verdict } from "./counter.ts";
import type { MemoryCounter } from "./memory/counter.ts";
import type { RedisCounter } from "./redis/counter.ts";

/** The `redis` object of /healthz and /readyz. */
export type RedisState = { configured: boolean; ready: boolean; error: RedisError | null };

/** The state when Redis is not configured. */
export const NO_REDIS: RedisState = { configured: false, ready: false, error: null };

export type FallbackOptions = {
  redis: RedisCounter;
  memory: MemoryCounter;
  now: () => number;
  /** When Redis does not respond: use the in-process counter, or refuse with 503 `unavailable`. */
  onFailure: "local" | "error";
  /** Redis cannot be used, and why; null: it can again. */
  onChange?: OnOutage<RedisError>;
};

type FallbackMetrics = {
  fallbacks_total: number;
  /** On Redis; those in process are the metrics of the memory counter. */
  overflowed_total: number;
  circuit_opened_total: number;
  circuit_open: boolean;
};

export class FallbackCounter implements Counter, SharedLeases {
  readonly #redis: RedisCounter;
  readonly #memory: MemoryCounter;
  readonly #onFailure: "local" | "error";
  readonly #breaker: CircuitBreaker;
  readonly #outages: OutageReports<RedisError>;
  #error: RedisError | null = null;
  #fallbacks = 0;

  constructor(options: FallbackOptions) {
    this.#redis = options.redis;
    this.#memory = options.memory;
    this.#onFailure = options.onFailure;
    this.#outages = new OutageReports(options.onChange ?? (() => {}), options.now);
    this.#breaker = new CircuitBreaker(options.now);
    this.#redis.onReady(() => void this.#probe());
    this.#redis.onConnectionError(() => this.#reportDown());
  }

  /** Waits for a first connection, at most `withinMs`, and finds out whether Redis can be used. */
  async connect(withinMs: number): Promise<void> {
    if (await this.#redis.ready(withinMs)) await this.#probe();
  }

  check(request: CheckRequest): Promise<Verdict> {
    return this.#try(
      () => this.#redis.check(request),
      () => this.#memory.check(request),
    );
  }

  lease(request: LeaseRequest): Promise<Lease> {
    return this.#try(
      () => this.#redis.lease(request),
      () => this.#memory.lease(request),
    );
  }

  /** A lease is returned to the store that granted it. One that cannot be returned stays charged, which is safe. */
  async returnLease(workspace_id: string, lease_id: string, unused: number): Promise<number> {
    if (this.#memory.holdsLease(workspace_id, lease_id)) {
      return this.#memory.returnLease(workspace_id, lease_id, unused);
    }
    return this.#try(
      () => this.#redis.returnLease(workspace_id, lease_id, unused),
      () => 0,
    );
  }

  async put(workspace_id: string, lease_id: string, record: string, ttlMs: number): Promise<boolean> {
    if (this.#isAvoided) return false;
    await this.#redis.putLease(workspace_id, lease_id, record, ttlMs).catch((error) => this.#failed(error));
    return true;
  }

  async take(workspace_id: string, lease_id: string): Promise<string | null> {
    if (this.#isAvoided) return null;
    return this.#redis.takeLease(workspace_id, lease_id).catch((error) => {
      this.#failed(error);
      return null;
    });
  }

  /** Also starts a probe that is due: without rate-limit checks nothing else would. */
  redisState(): RedisState {
    if (this.#breaker.shouldProbe()) void this.#probe();
    const ready = this.#redis.connected && !this.#isAvoided;
    return { configured: true, ready, error: ready ? null : (this.#redis.connectionError ?? this.#error) };
  }

  metrics(): FallbackMetrics {
    return {
      fallbacks_total: this.#fallbacks,
      overflowed_total: this.#redis.overflowed,
      circuit_opened_total: this.#breaker.opened,
      circuit_open: this.#breaker.open,
    };
  }

  close(): void {
    this.#redis.close();
    this.#memory.close();
  }

  /** A connection alone says little: Redis may not respond on it, or refuse commands. */
  get #isAvoided(): boolean {
    return this.#breaker.open || this.#redis.unprobed;
  }

  async #try<T>(onRedis: () => Promise<T>, inMemory: () => T): Promise<T> {
    if (this.#isAvoided) {
      if (this.#breaker.shouldProbe()) void this.#probe();
      return this.#fallBack(inMemory);
    }
    try {
      return await onRedis();
    } catch (error) {
      this.#failed(error);
      return this.#fallBack(inMemory);
    }
  }

  #fallBack<T>(inMemory: () => T): T {
    this.#fallbacks++;
    if (this.#onFailure === "error") throw fail("unavailable");
    return inMemory();
  }

  async #probe(): Promise<void> {
    try {
      await this.#redis.ping();
      this.#recovered();
    } catch (error) {
      this.#breaker.trip();
      this.#failed(error);
    }
  }

  #failed(error: unknown): void {
    this.#error = classifyRedisError(error);
    this.#breaker.fail();
    if (this.#breaker.open) this.#reportDown();
  }

  #recovered(): void {
    this.#error = null;
    this.#breaker.close();
    this.#outages.recovered();
  }

  #reportDown(): void {
    this.#outages.failed(this.#redis.connectionError ?? this.#error ?? "error");
  }
}
