// Idempotency records in Redis, one script per call, on Redis' own clock. Only for a Redis that never loses what it has
// acknowledged: AOF with appendfsync always and no eviction, checked again after every connection
// (docs/design/0006-idempotency-fencing.md).
// Caution: a call without a reply has decided nothing, so it is a 503 and never an `execute`.
import { Cluster, type Redis } from "ioredis";
import { fail } from "../../kernel/errors.ts";
import {
  LOCK_MS,
  RECORDS_MAX,
  STORED_BYTES_MAX,
  type Claim,
  type ClaimResult,
  type ClaimStore,
  type CompletionResult,
  type Completion,
  type RecordOutcome,
  type ClaimScope,
} from "../../kernel/idempotency.ts";
import { connectRedis, selectDatabase, type RedisClient } from "./connect.ts";
import { CLAIM, COMPLETE, HEARTBEAT, RELEASE } from "./claim-scripts.ts";
import { runScript, shortDigest, type Script } from "./script.ts";

const ANSWER_WITHIN_MS = 2_000;
const READY_WITHIN_MS = 3_000;

export type RedisClaimsOptions = {
  /** One URL, or several of a cluster's nodes. */
  urls: readonly string[];
  prefix?: string;
  /** Accept a Redis that may lose acknowledged claims. */
  forced?: boolean;
  /** Called when a connected Redis is not durable enough. */
  warn?: (reason: string) => void;
  /** Tests only: a clock instead of Redis'. */
  now?: () => number;
  storedBytesMax?: number;
  recordsMax?: number;
};

export class RedisClaims implements ClaimStore {
  readonly #client: RedisClient;
  readonly #options: RedisClaimsOptions;
  #unsafe: string | null = "not connected yet";

  private constructor(options: RedisClaimsOptions) {
    this.#options = options;
    this.#client = connectRedis(options.urls, { commandTimeout: ANSWER_WITHIN_MS });
    this.#client.on("error", () => {}); // every call reports its own
    this.#client.on("close", () => {
      this.#unsafe = "not connected";
    });
    this.#client.on("ready", () => void this.#examine());
  }

  /** `refused` is the reason why this Redis may not be used. One that cannot be reached yet is not refused. */
  static async open(options: RedisClaimsOptions): Promise<{ claims: RedisClaims; refused: string | null }> {
    const claims = new RedisClaims(options);
    const settled = new Promise<string | null>((resolve) => {
      claims.#examined = resolve;
      setTimeout(() => resolve(null), READY_WITHIN_MS).unref();
    });
    return { claims, refused: await settled };
  }

  #examined: (refused: string | null) => void = () => {};

  /** After each connection: another server may be at the same address now. */
  async #examine(): Promise<void> {
    let reason: string | null = null;
    try {
      await selectDatabase(this.#client);
    } catch {
      return this.#conclude("the database of its URL could not be selected");
    }
    try {
      if (!this.#options.forced) reason = await this.#whyNotDurable();
    } catch {
      reason = "its configuration could not be read (CONFIG GET)";
    }
    this.#conclude(reason);
  }

  #conclude(reason: string | null): void {
    this.#unsafe = reason;
    if (reason !== null) this.#options.warn?.(reason);
    this.#examined(reason);
  }

  async #whyNotDurable(): Promise<string | null> {
    const nodes: Redis[] = this.#client instanceof Cluster ? this.#client.nodes("master") : [this.#client];
    for (const node of nodes) {
      const get = async (name: string): Promise<string> => (await node.config("GET", name))[1] ?? "";
      if ((await get("appendonly")) !== "yes") return "it runs without an append-only file (appendonly)";
      if ((await get("appendfsync")) !== "always") return "it does not run with appendfsync always";
      if ((await get("maxmemory")) !== "0" && (await get("maxmemory-policy")) !== "noeviction") {
        return "it may evict records (maxmemory-policy is not noeviction)";
      }
      // Replication is asynchronous: a failover forgets claims that got `execute`.
      if (/^connected_slaves:[1-9]|^role:slave/m.test(await node.info("replication")))
        return "it has replicas, and a failover may lose acknowledged claims (connected_slaves is not 0)";
    }
    return null;
  }

  async claim(scope: ClaimScope, { fingerprint, token_hash, ttl_ms }: Claim): Promise<ClaimResult> {
    const max = this.#options.recordsMax ?? RECORDS_MAX;
    const args = [fingerprint, token_hash, LOCK_MS, Math.max(ttl_ms, LOCK_MS), max];
    const [state, ...rest] = await this.#run(CLAIM, scope, args);
    if (state === "execute") return { state, stolen: rest[0] === "1" };
    if (state === "in_progress") return { state, lease_left_ms: Number(rest[0]) };
    if (state === "mismatch" || state === "full") return { state };
    if (state !== "replay") throw fail("unavailable");
    const [status, stored, sealed = ""] = rest;
    return {
      state,
      status: Number(status),
      body_stored: stored === "1",
      sealed: sealed === "" ? null : Buffer.from(sealed, "base64"),
    };
  }

  async complete(
    scope: ClaimScope,
    { token_hash, status, ttl_ms, sealed_full: whole, sealed_without_body: bare }: Completion,
  ): Promise<CompletionResult> {
    const text = (sealed: Uint8Array | null): string => (sealed ? Buffer.from(sealed).toString("base64") : "");
    const max = this.#options.storedBytesMax ?? STORED_BYTES_MAX;
    const args = [token_hash, status, ttl_ms ?? "", text(whole), text(bare), max];
    const [outcome, stored] = await this.#run(COMPLETE, scope, args);
    return { outcome: outcome as RecordOutcome, body_stored: stored === "1" };
  }

  async release(scope: ClaimScope, token_hash: string): Promise<RecordOutcome> {
    return (await this.#run(RELEASE, scope, [token_hash]))[0] as RecordOutcome;
  }

  async heartbeat(scope: ClaimScope, token_hash: string): Promise<RecordOutcome> {
    return (await this.#run(HEARTBEAT, scope, [token_hash, LOCK_MS]))[0] as RecordOutcome;
  }

  close(): void {
    this.#client.disconnect();
  }

  async #run(script: Script, scope: ClaimScope, args: (string | number)[]): Promise<string[]> {
    if (this.#unsafe !== null) throw fail("unavailable");
    const { now } = this.#options;
    const time = now ? Math.floor(now()) : "";
    try {
      const reply = await runScript(this.#client, script, this.#keys(scope), [time, ...args]);
      return (reply as (string | number)[]).map(String);
    } catch {
      throw fail("unavailable");
    }
  }

  /** The record, and of its cell the stored bytes and the expiry of each record. One hash tag: one cluster node. */
  #keys({ workspace_id, env, scope_hash }: ClaimScope): string[] {
    const tag = `${this.#options.prefix ?? "keyrack"}:{${shortDigest(workspace_id)}}:idempotency`;
    return [`${tag}:${shortDigest(`${env}/${scope_hash}`)}`, `${tag}-bytes-${env}`, `${tag}-records-${env}`];
  }
}
