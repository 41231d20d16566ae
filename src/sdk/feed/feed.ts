// Follows the policy feed: a paged snapshot first, then deltas by long poll. Each poll's `since` also acknowledges that
// version, so the next poll follows at once after a change. Runs until stopped, never throws, and replaces a policy
// only by a complete one; after a failure the current policy stays and ages
// (docs/design/0004-policy-feed-and-versions.md). A policy belongs to the capabilities that were announced when it was
// fetched: when these change, the next exchange is a snapshot, because keys withheld earlier are in no delta.

import { HOUR_MS, MINUTE_MS } from "../../kernel/durations.ts";
import type { Policy } from "../../kernel/policy/policy.ts";
import { applyDelta, PolicyError, SnapshotLoader, type FeedExpectation } from "../../kernel/policy/loader.ts";
import { MIB } from "../../kernel/sizes.ts";
import { Backoff } from "../backoff.ts";
import { type Call, CallError, type Reply, type Runtime } from "../client.ts";
import { Announcement } from "./announcement.ts";
import { ClockCheck } from "./clock-check.ts";
import type { PolicyState } from "./policy-state.ts";

type FeedEvents = {
  /** The policy changed or was confirmed. */
  confirmed(changed: boolean): void;
  /** A page of a snapshot arrived, and more follow. */
  loading(): void;
  failed(error: Error): void;
};

type FeedKind = "snapshot" | "delta";
/** `caps`: what was announced with the call that succeeded. */
type FeedReply = Reply & { caps: string };

const PAGE_KEYS = 10_000;
const PAGE_KEYS_MIN = 100;
const PAGES_MAX = 50_000;
const PAGE_BYTES = 64 * MIB;
const PAGE_TIMEOUT_MS = 30_000;
const LONG_POLL_MS = 25_000;
const LONG_POLL_GRACE_MS = 2000;
const INTERVAL_FALLBACK_MS = 5 * MINUTE_MS;
const RETRY_MS = 500;
const RETRY_MAX_MS = 10_000;
const BURST = 10;
const BURST_PAUSE_MS = 100;
const LEAVING_TIMEOUT_MS = 2000;

export class Feed {
  readonly #runtime: Runtime;
  readonly #state: PolicyState;
  readonly #events: FeedEvents;
  readonly #expected: FeedExpectation;
  readonly #announcement: Announcement;
  readonly #clock: ClockCheck;
  readonly #backoff: Backoff;
  readonly #stopped = new AbortController();
  #wake: (() => void) | null = null;
  #running: Promise<void> = Promise.resolve();
  #pageKeys = PAGE_KEYS;
  /** Unusable deltas in a row; after two, restart from a snapshot. */
  #malformed = 0;
  #burst = 0;
  #stalls = 0;
  /** Whether the call of the current step may wait for a change. */
  #isLongPoll = false;
  /** Elapsed time until which to poll on the interval instead of by long poll. */
  #intervalUntil = 0;
  #loggedAt = 0;
  #called = false;
  #confirmed = false;

  constructor(runtime: Runtime, state: PolicyState, events: FeedEvents) {
    const { settings, ports, log } = runtime;
    this.#runtime = runtime;
    this.#state = state;
    this.#events = events;
    this.#announcement = new Announcement(ports, log);
    this.#clock = new ClockCheck(ports, log);
    this.#backoff = new Backoff(ports, RETRY_MS, RETRY_MAX_MS);
    this.#expected = { projectId: settings.projectId, env: settings.env, maxKeys: settings.maxKeys };
  }

  start(): void {
    if (!this.#state.isClosed) this.#running = this.#run();
  }

  /** Stops, then reports to the control plane that this node is leaving. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#wake?.();
    await this.#running;
    if (!this.#called) return;
    const { version = 0, caps = "" } = this.#state.policy ?? {};
    // Nothing of the response is used, so it may be small.
    const path = this.#path("delta", { since: String(version), max_keys: "1", leaving: "true", ...(caps && { caps }) });
    await this.#runtime.client
      .call({ method: "GET", path, timeoutMs: LEAVING_TIMEOUT_MS, maxBytes: PAGE_BYTES })
      .catch(() => {});
  }

  async #run(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      const pause = await this.#step();
      if (pause > 0 && !this.#stopped.signal.aborted) await this.#sleep(pause);
    }
  }

  /** One request to the feed; returns the pause before the next, in milliseconds. */
  async #step(): Promise<number> {
    this.#isLongPoll = false;
    try {
      const policy = this.#malformed < 2 ? this.#state.policy : null;
      const caps = this.#announcement.current();
      const pause = policy?.caps === caps ? await this.#poll(policy) : await this.#snapshot(caps, policy);
      this.#backoff.succeed();
      this.#malformed = 0;
      return pause;
    } catch (error) {
      return this.#stopped.signal.aborted ? 0 : this.#failed(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** `policy` is what this node holds, fetched with other capabilities. */
  async #snapshot(caps: string, policy: Policy | null): Promise<number> {
    const query = { max_keys: String(this.#pageKeys) };
    if (policy?.caps === "") return this.#announce({ ...query, caps }, policy);
    await this.#load(await this.#get("snapshot", query, caps, PAGE_TIMEOUT_MS));
    return 0;
  }

  /** Announces capabilities again. While the server refuses them, what it gave without them stays exact. */
  async #announce(query: { max_keys: string; caps: string }, policy: Policy): Promise<number> {
    const reply = await this.#call("snapshot", query, PAGE_TIMEOUT_MS, null).catch((error: unknown) => {
      if (isRefusal(error)) return null;
      throw error;
    });
    if (reply) {
      await this.#load({ ...reply, caps: query.caps });
      return 0;
    }
    const pause = await this.#poll(policy);
    this.#announcement.refused();
    return pause;
  }

  /** Loads the remaining pages of a snapshot. It takes effect only when complete. */
  async #load({ json, caps }: FeedReply): Promise<void> {
    const loader = new SnapshotLoader(this.#expected);
    let cursor = loader.add(json);
    for (let pages = 1; cursor !== null; pages++) {
      this.#events.loading();
      if (pages >= PAGES_MAX) throw new PolicyError("The snapshot has too many pages.");
      const query = { max_keys: String(this.#pageKeys), cursor };
      const reply = await this.#get("snapshot", query, caps, PAGE_TIMEOUT_MS);
      if (reply.caps !== caps) throw new PolicyError("The server accepts other capabilities than for the first page.");
      cursor = loader.add(reply.json);
    }
    const policy = loader.finish();
    policy.caps = caps;
    this.#confirm(policy, true);
  }

  async #poll(policy: Policy): Promise<number> {
    // An unconfirmed policy must be confirmed at once, not with the next change.
    const unconfirmed = !this.#confirmed || this.#backoff.failures > 0;
    const longest = Math.min(LONG_POLL_MS, Math.floor(this.#runtime.settings.staleMs / 3));
    const waitMs = unconfirmed || !this.#longPolls() ? 0 : longest;
    this.#isLongPoll = waitMs > 0;
    const polledAt = this.#runtime.ports.elapsed();
    const query = { since: String(policy.version), max_keys: String(this.#pageKeys) };
    const reply = await this.#get(
      "delta",
      waitMs > 0 ? { ...query, wait_ms: String(waitMs) } : query,
      policy.caps,
      waitMs > 0 ? waitMs + LONG_POLL_GRACE_MS : PAGE_TIMEOUT_MS,
      policy.tag,
    );
    if (waitMs > 0) this.#stalls = 0;
    const changed = reply.status === 304 ? this.#unchanged(policy, reply.etag) : await this.#change(policy, reply);
    if (changed) return ++this.#burst > BURST ? this.#jitter(BURST_PAUSE_MS) : 0;
    this.#burst = 0;
    // A server that responds early is stopping or has no long poll; either way it must not be polled in a tight loop.
    const waited = waitMs > 0 && this.#runtime.ports.elapsed() - polledAt >= waitMs / 2;
    return waited || unconfirmed ? 0 : this.#jitter(this.#runtime.settings.pollMs);
  }

  #unchanged(policy: Policy, etag: string | null): boolean {
    const version = etag === null ? null : /:(\d+)"$/.exec(etag)?.[1];
    if (version !== null && version !== String(policy.version)) {
      throw new PolicyError("The response confirms another version than ours.");
    }
    this.#confirm(policy, false);
    return false;
  }

  async #change(policy: Policy, reply: FeedReply): Promise<boolean> {
    const object = (reply.json as { object?: unknown } | null)?.object;
    if (object === "policy_snapshot") {
      await this.#load(reply);
      return true;
    }
    // It removes what is withheld from nodes without these capabilities. The next step takes a snapshot.
    if (reply.caps !== policy.caps) return true;
    const changed = applyDelta(policy, reply.json, this.#expected);
    policy.tag = reply.etag;
    this.#confirm(policy, changed);
    return changed;
  }

  #confirm(policy: Policy, changed: boolean): void {
    this.#state.confirm(policy);
    this.#confirmed = true;
    if (this.#backoff.failures > 0) this.#runtime.log("info", "the policy feed is back", { version: policy.version });
    this.#events.confirmed(changed);
  }

  #failed(error: Error): number {
    const call = error instanceof CallError ? error : null;
    if (call?.fault === "too_large") this.#pageKeys = Math.max(PAGE_KEYS_MIN, this.#pageKeys >> 1);
    if (!call || call.fault === "malformed") this.#malformed++;
    this.#noteStall(call);
    const backoff = this.#backoff;
    backoff.fail(call?.retryAfterMs ?? 0);
    // A rejected credential does not heal by itself, so it is logged again.
    const isOverdue = call?.isMisconfigured && this.#runtime.ports.elapsed() - this.#loggedAt >= HOUR_MS;
    if (backoff.shouldLog || isOverdue) {
      const { failures } = backoff;
      const level = call?.isMisconfigured ? "error" : "warn";
      this.#loggedAt = this.#runtime.ports.elapsed();
      this.#runtime.log(level, "the policy feed failed", { why: error.message, failures, status: call?.status ?? 0 });
    }
    this.#state.fail();
    this.#events.failed(error);
    return backoff.delayMs;
  }

  /**
   * Falls back to the poll interval when long polls are rejected by the server or cut off by a proxy. A call that does
   * not wait fails for another reason: the server is restarting.
   */
  #noteStall(call: CallError | null): void {
    if (!call || !this.#isLongPoll) return;
    const cut = call.fault === "timeout" || call.status === 502 || call.status === 504;
    this.#stalls = cut ? this.#stalls + 1 : this.#stalls;
    if (this.#stalls < 2 && call.status !== 400) return;
    this.#stalls = 0;
    this.#intervalUntil = this.#runtime.ports.elapsed() + INTERVAL_FALLBACK_MS;
    this.#runtime.log("info", "long polls do not work here; polling on an interval", { status: call.status });
  }

  #longPolls(): boolean {
    return this.#runtime.ports.elapsed() >= this.#intervalUntil;
  }

  /** A call that the server refuses for its capabilities is repeated without them. */
  async #get(
    kind: FeedKind,
    query: Record<string, string>,
    caps: string,
    timeoutMs: number,
    etag: string | null = null,
  ): Promise<FeedReply> {
    try {
      return { ...(await this.#call(kind, caps ? { ...query, caps } : query, timeoutMs, etag)), caps };
    } catch (error) {
      if (caps === "" || !isRefusal(error)) throw error;
    }
    const reply = await this.#call(kind, query, timeoutMs, etag);
    this.#announcement.refused();
    return { ...reply, caps: "" };
  }

  #call(kind: FeedKind, query: Record<string, string>, timeoutMs: number, etag: string | null): Promise<Reply> {
    const call: Call = { method: "GET", path: this.#path(kind, query), timeoutMs, maxBytes: PAGE_BYTES };
    if (etag) call.headers = { "if-none-match": etag };
    call.signal = this.#stopped.signal;
    this.#called = true;
    return this.#clock.check(this.#runtime.client.call(call));
  }

  #path(kind: string, query: Record<string, string>): string {
    const { projectId, env, nodeId } = this.#runtime.settings;
    const all = new URLSearchParams({ project_id: projectId, ...(env && { env }), node: nodeId, ...query });
    return `/v1/policy/${kind}?${all.toString()}`;
  }

  #jitter(ms: number): number {
    return ms * (0.75 + this.#runtime.ports.random() / 2);
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#runtime.ports.after(ms, resolve, true);
      this.#wake = () => {
        cancel();
        resolve();
      };
    });
  }
}

function isRefusal(error: unknown): boolean {
  return error instanceof CallError && error.status === 400;
}
