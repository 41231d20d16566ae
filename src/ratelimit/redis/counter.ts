// The counter store on Redis: every process counts together, by scripts on Redis' clock.
// Caution: it throws when Redis does not respond in time; the server uses it only through fallback.ts.
import { BoundedMap } from "../../kernel/bounded-map.ts";
import { randomUUID } from "node:crypto";
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import { type RedisBatch, Batcher } from "./batch.ts";
import { connectRedis, selectDatabase, type RedisClient } from "./connect.ts";
import { classifyRedisError, type RedisError } from "./error.ts";
import {
  type CheckRequest,
  type Counter,
  type Lease,
  type LeaseRequest,
  type RuleState,
  type Subject,
  subjectOf,
  type Verdict,
  verdictOf,
} from "../counter.ts";
import { keyOf } from "../memory/saved-counter.ts";
import { runScript, shortDigest, type Script } from "./script.ts";
import { CHECK, LEASE, PROBE, RETURN_LEASE, TAKE_RECORD } from "./scripts.ts";

export type RedisCounterOptions = {
  /** One, or several nodes of a cluster. */
  urls: readonly string[];
  /** Prefix of every key; without braces or spaces. */
  prefix?: string;
  /** How long a call may take before it counts as failed. */
  timeoutMs?: number | undefined;
  /** Tests only: how long Redis may be silent before its connection is replaced. */
  silentMaxMs?: number;
  /** Names of one cell within a window class; above it new subjects share one counter for each rule. */
  countersPerCell?: number;
  /** Tests only: a clock instead of Redis'. */
  now?: () => number;
};

/** A caller that waits for its part of a batch. */
type Waiter = {
  limits: readonly RateLimit[];
  resolve: (verdict: Verdict) => void;
  reject: (error: unknown) => void;
};

const TIMEOUT_MS = 200;
const COUNTERS_PER_CELL = 100_000;
const NAMES_MAX = 10_000;

export class RedisCounter implements Counter {
  readonly #client: RedisClient;
  readonly #batcher = new Batcher<Waiter>((batch) => this.#sendChecks(batch));
  readonly #prefix: string;
  readonly #timeoutMs: number;
  readonly #now: (() => number) | undefined;
  readonly #countersPerCell: number;
  readonly #tags = new BoundedMap<string, string>({ max: NAMES_MAX, evictAtOnce: NAMES_MAX });
  readonly #ruleNames = new BoundedMap<string, string>({ max: NAMES_MAX, evictAtOnce: NAMES_MAX });
  #lastError: RedisError | null = null;
  #isProbed = false;
  /** Since the start: rule lookups that used an overflow counter. */
  overflowed = 0;

  constructor(options: RedisCounterOptions) {
    this.#prefix = options.prefix ?? "keyrack";
    this.#now = options.now;
    this.#countersPerCell = options.countersPerCell ?? COUNTERS_PER_CELL;
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#client = connectRedis(options.urls, { socketTimeout: options.silentMaxMs });
    this.#client.on("error", (error) => (this.#lastError = classifyRedisError(error)));
    this.#client.on("ready", () => (this.#lastError = null));
    this.#client.on("close", () => (this.#isProbed = false));
  }

  /** Resolves true once connected, false after `withinMs`. Without it the first calls after a start use memory. */
  ready(withinMs: number): Promise<boolean> {
    if (this.connected) return Promise.resolve(true);
    return new Promise((resolve) => {
      const settle = (value: boolean) => () => {
        clearTimeout(timer);
        this.#client.off("ready", up);
        resolve(value);
      };
      const up = settle(true);
      const timer = setTimeout(settle(false), withinMs);
      this.#client.once("ready", up);
    });
  }

  get connected(): boolean {
    return this.#client.status === "ready";
  }

  /** Connected, but no `ping` has succeeded on this connection. */
  get unprobed(): boolean {
    return this.connected && !this.#isProbed;
  }

  /** Why the connection is down, according to its error events. */
  get connectionError(): RedisError | null {
    return this.#lastError;
  }

  onReady(listener: () => void): void {
    this.#client.on("ready", listener);
  }

  /** Not when the server ends an idle connection: that is opened again. */
  onConnectionError(listener: () => void): void {
    this.#client.on("error", listener);
  }

  check(request: CheckRequest): Promise<Verdict> {
    const { keys, args, waiters } = this.#batcher.batch(this.#client.isCluster ? request.workspace_id : "");
    args.push(32 * request.cost + 16 * envCode(request) + request.limits.length);
    this.#addRules(request, keys, args);
    if (this.#now !== undefined) args.push(this.#time());
    return new Promise((resolve, reject) => waiters.push({ limits: request.limits, resolve, reject }));
  }

  #sendChecks({ keys, args, waiters }: RedisBatch<Waiter>): void {
    args.unshift(this.#now === undefined ? 0 : 1, this.#countersPerCell);
    this.#count(CHECK, keys, args).then(
      (reply) => {
        let from = 0;
        for (const { limits, resolve } of waiters) {
          resolve(verdictAt(limits, reply, from));
          from += 3 * limits.length;
        }
      },
      (error: unknown) => {
        for (const { reject } of waiters) reject(error);
      },
    );
  }

  async lease(request: LeaseRequest): Promise<Lease> {
    const id = randomUUID();
    const keys: string[] = [];
    const args: (string | number)[] = [request.want, this.#time(), this.#countersPerCell, envCode(request)];
    this.#addRules(request, keys, args);
    keys.push(this.#leaseKey(request.workspace_id, id));
    const reply = await this.#count(LEASE, keys, args);
    const [granted, expires_in_ms] = reply as [number, number];
    const lease_id = granted > 0 ? id : null;
    return { granted, lease_id, expires_in_ms, store: "redis", policies: policiesOf(request.limits, reply, 2) };
  }

  /** Two calls, because a script must declare every key it uses; the second one decides, and only once per lease. */
  async returnLease(workspace_id: string, lease_id: string, unused: number): Promise<number> {
    const leaseKey = this.#leaseKey(workspace_id, lease_id);
    const held = await this.#inTime(this.#client.get(leaseKey));
    if (held === null) return 0;
    const counters = held.split(" ").filter((_, i) => i >= 2 && i % 2 === 0);
    return Number(await this.#run(RETURN_LEASE, [leaseKey, ...counters], [unused, this.#time()]));
  }

  async putLease(workspace_id: string, lease_id: string, record: string, ttlMs: number): Promise<void> {
    await this.#inTime(this.#client.set(this.#recordKey(workspace_id, lease_id), record, "PX", ttlMs));
  }

  async takeLease(workspace_id: string, lease_id: string): Promise<string | null> {
    return (await this.#run(TAKE_RECORD, [this.#recordKey(workspace_id, lease_id)], [])) as string | null;
  }

  /**
   * Throws unless Redis runs scripts that write, in the database of the URL. PING proves less: a read-only replica
   * responds to it, as does a server that refuses this user everything else.
   */
  async ping(): Promise<void> {
    await this.#inTime(selectDatabase(this.#client));
    await this.#run(PROBE, [`${this.#prefix}:probe`], []);
    this.#isProbed = true;
  }

  close(): void {
    this.#client.disconnect();
  }

  /** Each rule is a key and three arguments, limit, window and its name; the window of a fixed rule is negative. */
  #addRules(request: Subject & { limits: readonly RateLimit[] }, keys: string[], args: (string | number)[]): void {
    const { workspace_id, project_id, env, limits } = request;
    const tag = this.#tag(workspace_id);
    for (const limit of limits) {
      const { id, algorithm, window_ms, scope } = limit;
      const subject = subjectOf(request, limit);
      keys.push(tag + shortDigest(keyOf({ workspace_id, project_id, env, scope, subject, id, algorithm, window_ms })));
      const rule = `${workspace_id}/${project_id}/${env}/${scope}/${id}/${algorithm}/${window_ms}`;
      args.push(limit.limit, algorithm === "fixed" ? -window_ms : window_ms, this.#ruleName(rule));
    }
  }

  /** Runs a script that uses counters. */
  async #count(script: Script, keys: string[], args: (string | number)[]): Promise<number[]> {
    const reply = (await this.#run(script, keys, args)) as number[];
    this.overflowed += reply.at(-1) ?? 0;
    return reply;
  }

  #run(script: Script, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> {
    return this.#inTime(runScript(this.#client, script, keys, args));
  }

  /**
   * Our own deadline: ioredis starts its timer only when the command leaves the pipeline. A reply that is there already
   * wins over an expired timer: it was this process that stalled, not Redis.
   */
  #inTime<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const expire = () => setImmediate(() => reject(new Error("Command timed out")));
      const timer = setTimeout(expire, this.#timeoutMs);
      work.then(resolve, reject).finally(() => clearTimeout(timer));
    });
  }

  /** Empty: the script uses Redis' clock. */
  #time(): number | "" {
    return this.#now === undefined ? "" : Math.floor(this.#now());
  }

  #leaseKey(workspace_id: string, lease_id: string): string {
    return `${this.#tag(workspace_id)}lease:${shortDigest(lease_id)}`;
  }

  #recordKey(workspace_id: string, lease_id: string): string {
    return `${this.#tag(workspace_id)}lease-record:${shortDigest(lease_id)}`;
  }

  /** Memoized. */
  #ruleName(rule: string): string {
    let name = this.#ruleNames.get(rule);
    if (name === undefined) this.#ruleNames.set(rule, (name = shortDigest(rule)));
    return name;
  }

  /** A workspace's keys share a hash tag, so that one script may use several of them in a cluster. Memoized. */
  #tag(workspace_id: string): string {
    let tag = this.#tags.get(workspace_id);
    if (tag === undefined) {
      this.#tags.set(workspace_id, (tag = `${this.#prefix}:{${shortDigest(workspace_id)}}:`));
    }
    return tag;
  }
}

function envCode({ env }: Subject): number {
  return env === "test" ? 1 : 0;
}

function verdictAt(limits: readonly RateLimit[], reply: readonly number[], from: number): Verdict {
  const waits = limits.map((_, i) => (reply[from + 3 * i + 2] === -1 ? Infinity : reply[from + 3 * i + 2]!));
  return verdictOf("redis", limits, waits, policiesOf(limits, reply, from));
}

function policiesOf(limits: readonly RateLimit[], reply: readonly number[], from: number): RuleState[] {
  return limits.map(({ id, limit, window_ms }, i) => {
    return { id, limit, window_ms, remaining: reply[from + 3 * i]!, reset_ms: reply[from + 3 * i + 1]! };
  });
}
