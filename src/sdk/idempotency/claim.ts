// A granted claim: this process runs the handler. Heartbeats hold the claim while the handler runs; it then ends once,
// by `complete` with the response or by `release`, which lets a retry run. A response that cannot be stored is retried
// while heartbeats continue: a claim that expires after the handler ran lets a retry charge the customer twice.

import { CallError, type Runtime } from "../client.ts";
import { encodeBase64, replayHeaders } from "./replay.ts";
import type { Ports } from "../runtime.ts";
import { HOUR_MS } from "../../kernel/durations.ts";

type ClaimGrant = {
  scope_hash: string;
  env: string;
  ttl_ms?: number;
  lock_token: string;
  lockMs: number;
  maxBodyBytes: number;
};

const CALL_TIMEOUT_MS = 5000;
/** The response is held back this long until it is stored; then it is sent, and storing continues in the background. */
const HOLD_MS = 5000;
const RETRY_MS = 200;
const RETRY_MAX_MS = 5000;
/** About five minutes. */
const TRIES = 60;
/** A handler that never ends must not hold its claim for ever. */
const HANDLER_MAX_MS = HOUR_MS;

/** Shared by the claims of one instance: the responses that are being stored. */
export type Storing = {
  readonly pending: Set<Promise<void>>;
  /** From close() on: storing is still retried while the process lives, but does not keep it alive. */
  isClosed: boolean;
};

export class Claim {
  readonly maxBodyBytes: number;
  readonly #runtime: Runtime;
  readonly #grant: ClaimGrant;
  readonly #storing: Storing;
  readonly #startedAt: number;
  #ended = false;
  #cancelHeartbeat: () => void = () => {};

  constructor(runtime: Runtime, grant: ClaimGrant, storing: Storing) {
    this.#runtime = runtime;
    this.#grant = grant;
    this.#storing = storing;
    this.#startedAt = runtime.ports.elapsed();
    this.maxBodyBytes = grant.maxBodyBytes;
    this.#scheduleHeartbeat();
  }

  /** Stores the response. Resolves when it is stored, or after HOLD_MS. */
  async complete(status: number, headers: unknown, body: Uint8Array | null): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    this.#cancelHeartbeat();
    this.#scheduleHeartbeat(); // it was cancelled if the claim was abandoned
    const { scope_hash, env, lock_token, ttl_ms } = this.#grant;
    const record = { scope_hash, env, lock_token, status, headers: replayHeaders(headers), ...(ttl_ms && { ttl_ms }) };
    const text = JSON.stringify({ ...record, body: body ? encodeBase64(body) : null });
    const { pending } = this.#storing;
    const stored = this.#store(text).finally(() => {
      pending.delete(stored);
      this.#cancelHeartbeat();
    });
    pending.add(stored);
    await atMost(this.#runtime.ports, HOLD_MS, stored);
  }

  /** After the handler threw: a retry may run it again. */
  async release(): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    this.#cancelHeartbeat();
    await this.#send("release").catch((error: unknown) => this.#warn("a claim was not released", error));
  }

  /** When the outcome of the handler is unknown: lets the claim expire, unless `complete` follows. */
  abandon(): void {
    if (!this.#ended) this.#cancelHeartbeat();
  }

  async #store(body: string): Promise<void> {
    for (let tries = 0; ; tries++) {
      try {
        const outcome = await this.#call("complete", body);
        // Once the handler has ended, its own completion or release may be what ended the claim.
        if (outcome !== "ok" && !this.#ended) this.#runtime.log("warn", "a response was not stored", { outcome });
        return;
      } catch (error) {
        const refused = error instanceof CallError && error.status >= 400 && error.status < 500 && error.status !== 429;
        if (refused || tries >= TRIES) return this.#warn("a response was not stored", error);
        await this.#pause(Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** Math.min(tries, 10)));
      }
    }
  }

  #scheduleHeartbeat(): void {
    this.#cancelHeartbeat = this.#runtime.ports.after(this.#grant.lockMs / 3, () => void this.#heartbeat());
  }

  async #heartbeat(): Promise<void> {
    if (this.#runtime.ports.elapsed() - this.#startedAt > HANDLER_MAX_MS) return;
    this.#scheduleHeartbeat();
    try {
      const outcome = await this.#send("heartbeat");
      // Once the handler has ended, its own completion or release may be what ended the claim.
      if (outcome !== "ok" && !this.#ended)
        this.#runtime.log("warn", "an idempotency claim was lost while its handler ran", { outcome });
      if (outcome === "lock_lost" || outcome === "not_found") this.#cancelHeartbeat();
    } catch (error) {
      this.#warn("a heartbeat failed", error);
    }
  }

  #send(verb: "release" | "heartbeat"): Promise<unknown> {
    const { scope_hash, env, lock_token } = this.#grant;
    return this.#call(verb, JSON.stringify({ scope_hash, env, lock_token }));
  }

  async #call(verb: string, body: string): Promise<unknown> {
    const path = `/v1/idempotency/${verb}`;
    const { json } = await this.#runtime.client.call({ method: "POST", path, body, timeoutMs: CALL_TIMEOUT_MS });
    return (json as { outcome?: unknown } | null)?.outcome;
  }

  #warn(message: string, error: unknown): void {
    this.#runtime.log("warn", message, { why: error instanceof Error ? error.message : "unknown" });
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#runtime.ports.after(ms, resolve, !this.#storing.isClosed));
  }
}

export async function atMost({ after }: Ports, ms: number, work: Promise<unknown>): Promise<void> {
  let cancel = () => {};
  const timeout = new Promise<void>((resolve) => (cancel = after(ms, resolve, true)));
  await Promise.race([work, timeout]);
  cancel();
}
