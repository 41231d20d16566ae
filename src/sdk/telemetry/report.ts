// Telemetry: reports the outcome of each request in batches, in the background. It never delays a request and never
// throws into one. Memory is bounded; dropped events are counted and the count is reported. A batch that may have
// arrived is resent byte for byte: the control plane counts identical bodies once.

import { Backoff } from "../backoff.ts";
import { CallError, type Runtime } from "../client.ts";
import { ClientInfo, type RequestClient } from "./client-info.ts";
import type { Subject } from "../context.ts";
import { type Outside, outsideFields } from "./outside.ts";
import { redactCredentials } from "./redact.ts";
import { randomHex } from "../runtime.ts";
import type { Tags } from "./tags.ts";
import { utcDay } from "../../kernel/durations.ts";

export type RequestOutcome = {
  method: string;
  path: string;
  route: string | null;
  status: number;
  durationMs: number;
  degraded: boolean;
  /** The denial, or null when the request was admitted. */
  denial: string | null;
  subject: Subject | null;
  /** 1 where it is not given. */
  cost?: number;
  tags?: Tags | null;
  /** Null unless it came from outside the key's networks. */
  outside?: Outside | null;
  /** Null where it is not to be reported. */
  client?: RequestClient | null;
};

type Batch = { body: string; events: number; dropped: number };

const BATCH_EVENTS = 1000;
const BATCH_CHARS = 1 << 20;
const QUEUE_EVENTS = 10_000;
const QUEUE_CHARS = 8 << 20;
/**
 * The part of the queue, and of a batch, for requests that are refused for their key. They cost a stranger or a former
 * customer nothing, and must not displace the events that customers are billed by, here or in the workspace's budget.
 */
const REFUSED_SHARE = 0.1;
const FLUSH_MS = 1000;
const RETRY_MS = 1000;
const RETRY_MAX_MS = 30_000;
const SEND_TIMEOUT_MS = 10_000;
const CLOSE_MS = 3000;
const KEYS_MAX = 100_000;

export class Reporter {
  readonly #runtime: Runtime;
  readonly #onDropped: (events: number) => void;
  readonly #idStem = randomHex();
  readonly #seenToday = new Set<string>();
  readonly #clients = new ClientInfo();
  readonly #stopped = new AbortController();
  readonly #backoff: Backoff;
  readonly #events = new EventQueue(1);
  readonly #refused = new EventQueue(REFUSED_SHARE);
  #dropped = 0;
  #droppedEver = 0;
  #logDroppedAt = 1;
  #serial = 0;
  #day = 0;
  #pending: Batch | null = null;
  #sending: Promise<void> | null = null;
  #cancel: (() => void) | null = null;

  constructor(runtime: Runtime, onDropped: (events: number) => void = () => {}) {
    this.#runtime = runtime;
    this.#onDropped = onDropped;
    this.#backoff = new Backoff(runtime.ports, RETRY_MS, RETRY_MAX_MS);
  }

  record(outcome: RequestOutcome): void {
    if (this.#stopped.signal.aborted) return;
    const { settings, ports } = this.#runtime;
    const first = settings.sampleRate < 1 && this.#firstToday(outcome);
    if (!first && settings.sampleRate < 1 && ports.random() >= settings.sampleRate) return;
    const event = this.#toEvent(outcome, first);
    if (isRefused(outcome)) {
      if (!this.#refused.push(event)) return this.#countDropped(1);
    } else if (!this.#events.push(event)) {
      // A key's first event of the day may be this one: treat each key's next event as its first.
      this.#seenToday.clear();
      return this.#countDropped(1);
    }
    if (this.#events.length >= BATCH_EVENTS && this.#backoff.failures === 0) this.#flush();
    else this.#schedule(FLUSH_MS);
  }

  /** Sends the remaining events, for at most CLOSE_MS. */
  async close(): Promise<void> {
    const until = this.#runtime.ports.elapsed() + CLOSE_MS;
    const cancel = this.#runtime.ports.after(CLOSE_MS, () => this.#stopped.abort(), true);
    while ((this.#pending || this.#queued > 0) && this.#runtime.ports.elapsed() < until) {
      this.#flush();
      await this.#sending;
      if (this.#pending) break; // the server cannot be reached; what it rejected is gone
    }
    cancel();
    this.#cancel?.();
    this.#stopped.abort();
    const left = this.#queued + (this.#pending?.events ?? 0);
    if (left > 0) this.#runtime.log("warn", "events were not delivered before closing", { events: left });
  }

  get #queued(): number {
    return this.#events.length + this.#refused.length;
  }

  #flush(): void {
    this.#cancel?.();
    this.#cancel = null;
    this.#sending ??= this.#send().finally(() => {
      this.#sending = null;
      if (this.#stopped.signal.aborted || (!this.#pending && this.#queued === 0)) return;
      const { failures, delayMs } = this.#backoff;
      this.#schedule(failures > 0 ? delayMs : this.#events.length >= BATCH_EVENTS ? 0 : FLUSH_MS);
    });
  }

  #schedule(ms: number): void {
    if (this.#sending) return;
    this.#cancel ??= this.#runtime.ports.after(ms, () => this.#flush());
  }

  async #send(): Promise<void> {
    const batch = (this.#pending ??= this.#nextBatch());
    try {
      await this.#runtime.client.call({
        method: "POST",
        path: "/v1/ingest/batch",
        body: batch.body,
        timeoutMs: SEND_TIMEOUT_MS,
        signal: this.#stopped.signal,
      });
      this.#pending = null;
      this.#backoff.succeed();
    } catch (error) {
      this.#handleFailure(batch, error);
    }
  }

  /** A batch rejected for its content would be rejected again: drops it and counts its events. */
  #handleFailure(batch: Batch, error: unknown): void {
    const status = error instanceof CallError ? error.status : 0;
    this.#backoff.fail(error instanceof CallError ? error.retryAfterMs : 0);
    if (status === 400 || status === 413 || status === 415 || status === 422) {
      this.#pending = null;
      this.#dropped += batch.dropped; // counted when they were dropped
      this.#seenToday.clear();
      this.#countDropped(batch.events);
      this.#runtime.log("warn", "a batch of events was rejected", { status, events: batch.events });
    } else if (this.#backoff.shouldLog) {
      this.#runtime.log("warn", "events cannot be delivered", { status, failures: this.#backoff.failures });
    }
  }

  #nextBatch(): Batch {
    const events = [...this.#events.take(), ...this.#refused.take()];
    const dropped = this.#dropped;
    this.#dropped = 0;
    const head = JSON.stringify({
      object: "ingest_batch",
      protocol_version: 1,
      node_id: this.#runtime.settings.nodeId,
      sdk: this.#runtime.settings.sdk,
      sample_rate: this.#runtime.settings.sampleRate,
      events_dropped: dropped,
      key_first_daily: true,
    });
    return { body: `${head.slice(0, -1)},"events":[${events.join(",")}]}`, events: events.length, dropped };
  }

  #countDropped(events: number): void {
    this.#dropped += events;
    this.#onDropped(events);
    this.#droppedEver += events;
    if (this.#droppedEver < this.#logDroppedAt) return;
    this.#logDroppedAt = 2 * this.#droppedEver;
    this.#runtime.log("warn", "events are dropped", { events: this.#droppedEver });
  }

  /**
   * A key's first admitted event of a UTC day is never sampled out: usage counts active tenants by it, and a project
   * may revoke keys that are not used.
   */
  #firstToday({ denial, subject }: RequestOutcome): boolean {
    if (denial !== null || !subject?.keyId) return false;
    const day = utcDay(this.#runtime.ports.now());
    // Cleared at the bound: some keys then report two first events, which costs an event and is never wrong.
    if (day !== this.#day || this.#seenToday.size >= KEYS_MAX) this.#seenToday.clear();
    this.#day = day;
    if (this.#seenToday.has(subject.keyId)) return false;
    this.#seenToday.add(subject.keyId);
    return true;
  }

  #toEvent(outcome: RequestOutcome, first: boolean): string {
    const { subject, client } = outcome;
    return JSON.stringify({
      ts: new Date(this.#runtime.ports.now()).toISOString(),
      project_id: this.#runtime.settings.projectId,
      env: subject?.env ?? this.#runtime.settings.env ?? "live",
      tenant_id: subject?.tenantId ?? null,
      key_id: subject?.keyId ?? null,
      display_prefix: subject?.displayPrefix ?? null,
      method: sanitize(outcome.method, 16) || "GET",
      path: sanitize(outcome.path, 2048),
      route: outcome.route === null ? null : sanitize(outcome.route, 512),
      status: Math.min(599, Math.max(100, Math.trunc(outcome.status) || 500)),
      duration_ms: durationOf(outcome.durationMs),
      degraded: outcome.degraded,
      denial_reason: outcome.denial,
      request_id: `${this.#idStem}-${(this.#serial++).toString(36)}`,
      ...(first && { sample_rate: 1 }),
      ...(outcome.cost !== undefined && outcome.cost !== 1 && { cost: outcome.cost }),
      ...(outcome.tags && { tags: outcome.tags }),
      ...(client && subject?.keyId && this.#clients.fieldsOf(subject.keyId, client, this.#runtime.ports.elapsed())),
      ...(outcome.outside && outsideFields(outcome.outside)),
    });
  }
}

/** Whether the request was refused for its key. Those at a limit, which are many of a customer's own, are not. */
function isRefused({ subject, denial, status }: RequestOutcome): boolean {
  return subject === null || (denial !== null && (status === 401 || status === 403));
}

/** Bounded by count and size: `share` of each bound of the reporter. */
class EventQueue {
  readonly #share: number;
  readonly #events: string[] = [];
  #chars = 0;

  constructor(share: number) {
    this.#share = share;
  }

  get length(): number {
    return this.#events.length;
  }

  /** False where there is no room. */
  push(event: string): boolean {
    const chars = this.#chars + event.length;
    if (this.#events.length >= QUEUE_EVENTS * this.#share || chars > QUEUE_CHARS * this.#share) return false;
    this.#events.push(event);
    this.#chars = chars;
    return true;
  }

  /** Removes the oldest events, as many as its share of a batch holds. */
  take(): string[] {
    let [chars, count] = [0, 0];
    while (count < this.length && count < BATCH_EVENTS * this.#share && chars < BATCH_CHARS * this.#share) {
      chars += this.#events[count++]?.length ?? 0;
    }
    this.#chars -= chars;
    return this.#events.splice(0, count);
  }
}

/** What is no duration is 0: the control plane would reject the whole batch for it. */
function durationOf(ms: number): number {
  return Number.isFinite(ms) ? Math.max(0, Math.round(ms * 1000) / 1000) : 0;
}

/** Truncates to printable ASCII and redacts credentials, which callers put into URLs. */
function sanitize(text: string, max: number): string {
  const short = text.slice(0, max).replace(/[^\x20-\x7e]/g, "?");
  return redactCredentials(short);
}
