// A claim that was granted: this process runs the handler. Heartbeats keep it while the handler runs; then it ends once,
// by `complete` with the answer or by `release` for a retry to run again.
// An answer that cannot be stored yet is tried again while the heartbeats go on: letting the claim lapse after the
// handler has run is how a customer is charged twice.

import { CallError, type Client } from "../client.ts";
import { encodeBase64, replayHeaders } from "./replay.ts";
import type { Log, Ports } from "../runtime.ts";

export type ClaimGrant = {
  scope_hash: string;
  env: string;
  ttl_ms?: number;
  lock_token: string;
  lockMs: number;
  maxBodyBytes: number;
};

const CALL_TIMEOUT_MS = 5000;
/** The handler's answer waits this long for its record; then it goes out and the record is stored when it can be. */
const HOLD_MS = 5000;
const RETRY_MS = 200;
const RETRY_MAX_MS = 5000;
/** About five minutes. */
const TRIES = 60;
/** A handler that never ends must not hold its key for ever. */
const LONGEST_MS = 3_600_000;
const CLOSE_MS = 2000;

export class Claim {
  readonly maxBodyBytes: number;
  /** Resolves when the claim is over, whichever way. */
  readonly settled: Promise<void>;
  readonly #client: Client;
  readonly #ports: Ports;
  readonly #log: Log;
  readonly #facts: ClaimGrant;
  readonly #beganAt: number;
  #settle: () => void = () => {};
  #ended = false;
  #storing = false;
  #cancelBeat: () => void = () => {};

  constructor(client: Client, ports: Ports, log: Log, facts: ClaimGrant) {
    this.#client = client;
    this.#ports = ports;
    this.#log = log;
    this.#facts = facts;
    this.#beganAt = ports.elapsed();
    this.maxBodyBytes = facts.maxBodyBytes;
    this.settled = new Promise((resolve) => (this.#settle = resolve));
    this.#beatLater();
  }

  /** Stores the answer. Resolves when it is stored, or when the client has waited long enough for that. */
  async complete(status: number, headers: unknown, body: Uint8Array | null): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    this.#storing = true;
    const { scope_hash, env, lock_token, ttl_ms } = this.#facts;
    const record = { scope_hash, env, lock_token, status, headers: replayHeaders(headers), ...(ttl_ms && { ttl_ms }) };
    const text = JSON.stringify({ ...record, body: body ? encodeBase64(body) : null });
    const stored = this.#store(text).finally(() => this.#over());
    await this.#atMost(HOLD_MS, stored);
  }

  /** The handler threw: a retry may run it again. */
  async release(): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    await this.#say("release").catch((error: unknown) => this.#warn("a claim was not released", error));
    this.#over();
  }

  /** Nobody knows what became of the handler: let the claim lapse. */
  abandon(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#over();
  }

  /** The process is closing: wait a moment for an answer that is being stored. */
  async closing(): Promise<void> {
    if (this.#storing) await this.#atMost(CLOSE_MS, this.settled);
  }

  async #store(body: string): Promise<void> {
    for (let tries = 0; ; tries++) {
      try {
        const outcome = await this.#call("complete", body);
        if (outcome !== "ok") this.#log("warn", "an answer was not stored", { outcome });
        return;
      } catch (error) {
        const refused = error instanceof CallError && error.status >= 400 && error.status < 500 && error.status !== 429;
        if (refused || tries >= TRIES) return this.#warn("an answer was not stored", error);
        await this.#pause(Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** Math.min(tries, 10)));
      }
    }
  }

  #beatLater(): void {
    this.#cancelBeat = this.#ports.after(this.#facts.lockMs / 3, () => void this.#beat());
  }

  async #beat(): Promise<void> {
    if (this.#ports.elapsed() - this.#beganAt > LONGEST_MS) return;
    this.#beatLater();
    try {
      const outcome = await this.#say("heartbeat");
      if (outcome !== "ok") this.#log("warn", "an idempotency claim was lost while its handler ran", { outcome });
      if (outcome === "lock_lost" || outcome === "not_found") this.#cancelBeat();
    } catch (error) {
      this.#warn("a heartbeat failed", error);
    }
  }

  #say(verb: "release" | "heartbeat"): Promise<unknown> {
    const { scope_hash, env, lock_token } = this.#facts;
    return this.#call(verb, JSON.stringify({ scope_hash, env, lock_token }));
  }

  async #call(verb: string, body: string): Promise<unknown> {
    const path = `/v1/idempotency/${verb}`;
    const { json } = await this.#client.call({ method: "POST", path, body, timeoutMs: CALL_TIMEOUT_MS });
    return (json as { outcome?: unknown } | null)?.outcome;
  }

  #over(): void {
    this.#storing = false;
    this.#cancelBeat();
    this.#settle();
  }

  #warn(message: string, error: unknown): void {
    this.#log("warn", message, { why: error instanceof Error ? error.message : "unknown" });
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#ports.after(ms, resolve, true));
  }

  async #atMost(ms: number, work: Promise<void>): Promise<void> {
    let cancel = () => {};
    const timeout = new Promise<void>((resolve) => (cancel = this.#ports.after(ms, resolve, true)));
    await Promise.race([work, timeout]);
    cancel();
  }
}
