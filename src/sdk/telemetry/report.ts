// Telemetry: reports the outcome of each request in batches, in the background. It never delays a request and never
// throws into one. Memory is bounded; dropped events are counted and the count is reported. A batch that may have
// arrived is resent byte for byte: the control plane counts identical bodies once. Of a batch that it rejects, only the
// events that it names are lost.

import { Backoff } from "../backoff.ts";
import { CallError, type Runtime } from "../client.ts";
import { ClientInfo, type RequestClient } from "./client-info.ts";
import type { Subject } from "../context.ts";
import { BATCH_EVENTS, EventQueue } from "./event-queue.ts";
import { type OutsideNetworks, outsideFields } from "./network-report.ts";
import { redactCredentials } from "./redact.ts";
import { withoutRejected } from "./rejected-events.ts";
import { randomHex } from "../runtime.ts";
import type { Tags } from "./tags.ts";
import { utcDay } from "../../kernel/durations.ts";
import { TEXT_MAX } from "../../kernel/usage/event-bounds.ts";

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
  /** 1 if it is not given. */
  cost?: number;
  tags?: Tags | null;
  /** Null unless it came from outside the key's networks. */
  outside?: OutsideNetworks | null;
  /** Null if it is not to be reported. */
  client?: RequestClient | null;
};

/** `resends`: how often it was sent before, with the `rejected` events that the control plane named. */
type Batch = { events: readonly string[]; body: string; dropped: number; resends: number; rejected: number };

/** At 20 problems a response, every event of a batch can be named. */
const RESENDS_MAX = 60;
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
  #isInvalidLogged = false;
  #isUncountedLogged = false;

  constructor(runtime: Runtime, onDropped: (events: number) => void = () => {}) {
    this.#runtime = runtime;
    this.#onDropped = onDropped;
    this.#backoff = new Backoff(runtime.ports, RETRY_MS, RETRY_MAX_MS);
  }

  /** Never throws: what a vendor's function returns may be anything. */
  record(outcome: RequestOutcome): void {
    try {
      this.#record(outcome);
    } catch (error) {
      this.dropInvalid(error);
    }
  }

  /** Counts a request that could not be reported as dropped, and logs the first one. */
  dropInvalid(error: unknown): void {
    if (!this.#isInvalidLogged) this.#runtime.log("error", "a request was not reported", { why: String(error) });
    this.#isInvalidLogged = true;
    this.#countDropped(1);
  }

  #record(outcome: RequestOutcome): void {
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

  /** Sends the remaining events, for at most CLOSE_MS, and repeats what fails meanwhile. */
  async close(): Promise<void> {
    const until = this.#runtime.ports.elapsed() + CLOSE_MS;
    const cancel = this.#runtime.ports.after(CLOSE_MS, () => this.#stopped.abort(), true);
    while ((this.#pending || this.#queued > 0) && this.#runtime.ports.elapsed() < until) {
      this.#flush();
      await this.#sending;
      if (!this.#pending) continue; // what the server rejected is gone
      const { delayMs } = this.#backoff;
      if (this.#runtime.ports.elapsed() + delayMs >= until) break; // the server has been unreachable for long
      await new Promise<void>((resolve) => void this.#runtime.ports.after(delayMs, resolve, true));
    }
    cancel();
    this.#cancel?.();
    this.#stopped.abort();
    const left = this.#queued + (this.#pending?.events.length ?? 0);
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
    let batch: Batch | null = (this.#pending ??= this.#toBatch([...this.#events.take(), ...this.#refused.take()]));
    while (batch) {
      try {
        const { json } = await this.#runtime.client.call({
          method: "POST",
          path: "/v1/ingest/batch",
          body: batch.body,
          timeoutMs: SEND_TIMEOUT_MS,
          signal: this.#stopped.signal,
          readsProblems: true,
        });
        this.#pending = null;
        this.#backoff.succeed();
        if (batch.rejected > 0) this.#logRejected(batch.rejected, 400);
        this.#readReceipt(json, batch.events.length);
        return;
      } catch (error) {
        batch = this.#handleFailure(batch, error);
      }
    }
  }

  /** The server counts no event that is a week old, and a repeated batch gets the receipt of the first. */
  #readReceipt(json: unknown, sent: number): void {
    const accepted = (json as { accepted?: unknown } | null)?.accepted;
    if (this.#isUncountedLogged || typeof accepted !== "number" || accepted >= sent) return;
    this.#isUncountedLogged = true;
    const message = "the server did not count events that it takes for old: is this machine's clock right?";
    this.#runtime.log("warn", message, { sent, accepted });
  }

  /** Returns what can be sent now: a batch rejected for its content, without the events that the response names. */
  #handleFailure(batch: Batch, error: unknown): Batch | null {
    const status = error instanceof CallError ? error.status : 0;
    if (status === 400 || status === 413 || status === 415 || status === 422) {
      const left = batch.resends < RESENDS_MAX ? withoutRejected(batch.events, (error as CallError).problems) : [];
      const rejected = batch.events.length - left.length;
      this.#dropped += batch.dropped; // counted when they were dropped
      this.#seenToday.clear();
      this.#countDropped(rejected);
      const all = batch.rejected + rejected;
      this.#pending = left.length > 0 ? this.#toBatch(left, batch.resends + 1, all) : null;
      if (this.#pending) return this.#pending;
      this.#logRejected(all, status);
    }
    this.#backoff.fail(error instanceof CallError ? error.retryAfterMs : 0);
    if (this.#pending && this.#backoff.shouldLog)
      this.#runtime.log("warn", "events cannot be delivered", { status, failures: this.#backoff.failures });
    return null;
  }

  /** Once for a batch, however many responses named its events. */
  #logRejected(events: number, status: number): void {
    this.#runtime.log("warn", "events were rejected", { status, events });
  }

  #toBatch(events: readonly string[], resends = 0, rejected = 0): Batch {
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
    return { events, body: `${head.slice(0, -1)},"events":[${events.join(",")}]}`, dropped, resends, rejected };
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
      method: sanitize(outcome.method, TEXT_MAX.method) || "GET",
      path: sanitize(outcome.path, TEXT_MAX.path),
      route: outcome.route === null ? null : sanitize(outcome.route, TEXT_MAX.route),
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

/** 0 for an invalid duration, for which the control plane would reject the whole batch. */
function durationOf(ms: number): number {
  return Number.isFinite(ms) ? Math.max(0, Math.round(ms * 1000) / 1000) : 0;
}

/** Truncates to printable ASCII and redacts credentials, which callers put into URLs. */
function sanitize(text: string, max: number): string {
  const short = text.slice(0, max).replace(/[^\x20-\x7e]/g, "?");
  return redactCredentials(short).slice(0, max); // longer where a short credential was
}
