// Records which nodes poll the feed and which policy version each has acknowledged. Polls never wait for the database:
// reports are collected and written in batches, and only when they change something.
import { setTimeout as sleep } from "node:timers/promises";
import type { Ledger } from "../../fairness/ledger.ts";
import { cellOwner } from "../../fairness/owners.ts";
import type { Env } from "../../kernel/credentials.ts";
import { DAY_MS, isFuture } from "../../kernel/durations.ts";
import { Failure } from "../../kernel/errors.ts";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import type { Log } from "../../platform/log.ts";
import { atMost } from "../../platform/timing.ts";
import type { Store } from "../../store/store.ts";
import { nodesByKeys } from "../../store/queries/nodes.ts";
import type { Clock } from "../core/clock.ts";
import { KeyedListeners } from "../../platform/keyed-listeners.ts";
import type { WrittenBytes } from "../limits/written-bytes.ts";
import type { Head } from "../policy/head.ts";
import { record } from "../core/record.ts";
import { KnownNodes, type KnownNode } from "./known-nodes.ts";
import { liveSince } from "./presence.ts";
import { bytesOf, keyOf, noteLost, writeReports } from "./reports.ts";
import type { NodeBounds, NodeReport } from "./reports.ts";
import { LostReports } from "./lost-reports.ts";
import { ReportQueue, type PendingReport } from "./report-queue.ts";
import { envOf, hasTraits, traitsOf, type NodeTraits, type PollingNode } from "./traits.ts";

export const NODE_RETENTION_MS = DAY_MS;
/** How often to write that a node is still there, at most. */
const SEEN_EVERY_MS = 30_000;
/** Notifications of nodes that left. */
const TOPIC = "node";
const WRITE_MAX = 500;
/** Listeners notified of a batch before yielding to other requests: each reads the nodes that it waits for. */
const SLICE = 32;
/** Between two batches: nodes report one after the other, and a commit for each costs as much as its poll. */
const GATHER_MS = 10;

type Options = {
  store: Store;
  clock: Clock;
  log: Log;
  /** Reports that wait to be written. */
  waiting: Ledger;
  /** Nodes whose row this process knows. */
  known: Ledger;
  bounds: Pick<NodeBounds, "perProject" | "liveMs">;
  /** Every new row is charged to its owner; without room for more, a newcomer is not registered. */
  writtenBytes: Pick<WrittenBytes, "hasRoom" | "add">;
};

export class NodeRegistry {
  /** Reports that found no room, for /metrics. */
  dropped = 0;
  /** How long a poll of a node without a live row waits for one. Long polls of nodes time out 2 s late. */
  registerMs = 1_000;
  /** When a node has reported last, by `performance.now()`; before that, when this process started. */
  reportedAtMonotonic = performance.now();
  /** When this process last found that nodes could report to it, by the clock. */
  presentAt = 0;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #known: KnownNodes;
  readonly #queue: ReportQueue;
  readonly #bounds: NodeBounds;
  readonly #writtenBytes: Options["writtenBytes"];
  readonly #seenEveryMs: number;
  /** By project. */
  readonly #listeners = new KeyedListeners();
  /** Nodes of the batch being written. */
  readonly #inBatch = new Set<string>();
  /** Nodes that left through another process during a write. */
  readonly #left = new Set<string>();
  readonly #lost = new LostReports();
  /** Whether the last write failed for want of space, as one of any process would. */
  #isDiskFull = false;
  #writing: Promise<void> | undefined;
  /** The batch being written, or the pause after one. */
  #batch: Promise<void> | undefined;

  constructor({ store, clock, log, waiting, known, bounds, writtenBytes }: Options) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    const presence = { store, clock, settings: { node_live_ms: bounds.liveMs }, nodes: this };
    this.#bounds = {
      ...bounds,
      liveSince: (tx) => liveSince(presence, tx),
      hasRoom: (owner) => writtenBytes.hasRoom(owner),
    };
    this.#writtenBytes = writtenBytes;
    this.#seenEveryMs = Math.min(SEEN_EVERY_MS, bounds.liveMs / 4);
    this.#known = new KnownNodes(known, clock, bounds.liveMs);
    this.#queue = new ReportQueue(waiting, (key, report) => this.#drop(key, report));
    // A node that left through one process may come back to another, which must then register it again.
    store.onNotice(TOPIC, (key) => {
      this.#known.delete(key);
      if (this.#writing) this.#left.add(key);
    });
    store.onNotice("resync", () => this.#known.clear());
  }

  /** Returns whether receipts count the node already; if not, `registered` waits until they do. */
  acknowledge(head: Head, node: PollingNode, version: number): boolean {
    const key = keyOf({ project_id: head.project_id, ...node });
    const known = this.#known.get(key);
    const isRegistered = this.#known.isLive(key);
    if (known?.version === version) {
      // The node may have acknowledged a later version to another process, and have gone back to this one since.
      if (version < head.version) this.#known.markStale(key);
      else if (isRegistered && this.#isFresh(known, traitsOf(node))) return true;
    }
    this.#enqueue(key, this.#report(head, node, version));
    return isRegistered;
  }

  /**
   * Taking a snapshot shows that the node is alive; it acknowledges a version with its next delta poll. It may have
   * left and started again since, so its row is read again. Returns the same as `acknowledge`.
   */
  noteSeen(head: Head, node: PollingNode): boolean {
    const key = keyOf({ project_id: head.project_id, ...node });
    const isRegistered = this.#known.isLive(key);
    this.#known.markStale(key);
    this.#enqueue(key, this.#report(head, node, null));
    return isRegistered;
  }

  /**
   * Waits until receipts of every process count the node, after its report: it has a row, or it is noted that it has
   * none. Returns whether they do. On SQLite there is no other process, and this one remembers failed writes. While
   * PostgreSQL's disk is full, no process commits a change that a receipt could be about.
   */
  async awaitRegistration({ project_id }: Head, node: PollingNode): Promise<boolean> {
    const key = keyOf({ project_id, ...node });
    const isWritten = (): boolean => !this.#queue.has(key) && !this.#inBatch.has(key);
    await this.#waitFor(() => this.#known.isLive(key) || isWritten(), this.registerMs);
    if (this.#known.isLive(key)) return true;
    if (!isWritten()) return false;
    return this.#store.dialect === "sqlite" || this.#isDiskFull || !this.#lost.has({ project_id, ...node });
  }

  leave(head: Head, node: PollingNode): void {
    const key = keyOf({ project_id: head.project_id, ...node });
    this.#known.delete(key); // polls that arrive before its row is deleted register it again
    this.#enqueue(key, { ...this.#report(head, node, null), leaving: true });
  }

  /** Whether the database knows the node as it is, and saw it lately: not by a clock that was ahead. */
  #isFresh(known: KnownNode, traits: NodeTraits, now = this.#clock.now()): boolean {
    const { last_seen_at } = known;
    return hasTraits(known, traits) && now - last_seen_at < this.#seenEveryMs && !isFuture(last_seen_at, now);
  }

  #report({ project_id, workspace_id }: Head, node: PollingNode, version: number | null): NodeReport {
    const { node_id, env_scope, account_id } = node;
    const last_seen_at = this.#clock.now();
    const owner = cellOwner(workspace_id, envOf(env_scope), account_id);
    return { project_id, node_id, env_scope, version, last_seen_at, ...traitsOf(node), leaving: false, owner };
  }

  /** Resolves when all reports so far are in the database, or were dropped because the write failed. */
  async flushed(): Promise<void> {
    while (this.#writing) await this.#writing;
  }

  /**
   * Whether the reports so far of nodes with keys of this environment, or of either, are in the database or were lost,
   * within this time. Later ones do not matter.
   */
  async awaitSettled(project_id: string, env: Env | null, waitMs: number): Promise<boolean> {
    const { newest } = this.#queue;
    const isSettled = (): boolean => this.#queue.isSettled(project_id, env, newest);
    await this.#waitFor(isSettled, waitMs);
    return isSettled();
  }

  /** Waits for something that a batch brings about. */
  async #waitFor(isDone: () => boolean, waitMs: number): Promise<void> {
    const deadline = performance.now() + waitMs;
    for (let left = waitMs; left > 0 && !isDone(); left = deadline - performance.now()) await atMost(left, this.#batch);
  }

  /** Whether such a node, seen after this time, may have no row because its report was lost. */
  hasLost(project_id: string, env: Env | null, seenAfter: number): boolean {
    return this.#lost.hasSince(project_id, env, seenAfter);
  }

  /** Registers a listener for written reports of a project; returns how to unregister it. */
  onWritten(project_id: string, listener: () => void): () => void {
    return this.#listeners.on(project_id, listener);
  }

  #enqueue(key: string, report: NodeReport): void {
    this.reportedAtMonotonic = performance.now();
    if (this.#queue.add(key, report)) this.#writing ??= this.#write();
    else this.#drop(key, report);
  }

  /** The node reports again with its next poll. */
  #drop(key: string, report: NodeReport): void {
    this.dropped++;
    if (!this.#known.isLive(key)) this.#lost.add(report);
  }

  async #write(): Promise<void> {
    while (this.#queue.size > 0) {
      this.#batch = this.#writeBatch();
      await this.#batch;
      if (this.#queue.size >= WRITE_MAX) continue;
      this.#batch = sleep(GATHER_MS);
      await this.#batch;
    }
    this.#writing = undefined;
  }

  async #writeBatch(): Promise<void> {
    const batch = this.#queue.take(WRITE_MAX);
    for (const { key } of batch) this.#inBatch.add(key);
    let changed: NodeReport[] = [];
    try {
      changed = await this.#writeChanged(batch);
      for (const { key } of batch) this.#known.stored(key);
    } catch (error) {
      for (const { key, report } of batch) {
        this.#known.markStale(key); // the commit may have taken effect
        if (!this.#known.isLive(key)) this.#lost.add(report);
      }
      this.#isDiskFull = isDiskFull(error);
      this.#log.warn("acknowledgements of nodes were not written", { nodes: batch.length, error: String(error) });
    }
    for (const key of this.#left) this.#known.delete(key);
    this.#left.clear();
    this.#inBatch.clear();
    this.#queue.settle(batch);
    await this.#notifyOf(changed);
    this.#notifyOfLeaving(changed);
  }

  async #writeChanged(batch: readonly PendingReport[]): Promise<NodeReport[]> {
    const changed = await this.#changedAmong(batch);
    const lost = this.#lost.list();
    if (changed.length + lost.length > 0) {
      const { without, added } = await record({ store: this.#store }, async (tx) => {
        const outcome = await writeReports(tx, changed, { ...this.#bounds, now: this.#clock.now() });
        for (const nodes of lost) await noteLost(tx, nodes, this.#bounds);
        return outcome;
      });
      this.#isDiskFull = false;
      for (const node of without) this.#known.delete(keyOf(node));
      for (const report of added) this.#writtenBytes.add(report.owner, bytesOf(report));
    }
    this.#lost.stored(lost);
    return changed;
  }

  /** In slices: thousands of revocations may wait for the same nodes. Those that begin during it are not notified. */
  async #notifyOf(changed: readonly NodeReport[]): Promise<void> {
    let notified = 0;
    for (const project_id of new Set(changed.map((report) => report.project_id)))
      for (const listener of Array.from(this.#listeners.of(project_id))) {
        listener();
        if (++notified % SLICE === 0) await yieldToEventLoop();
      }
  }

  #notifyOfLeaving(changed: readonly NodeReport[]): void {
    const left = changed.filter(({ leaving }) => leaving).map(keyOf);
    if (left.length > 0) this.#store.notify(TOPIC, ...left).catch(() => {}); // only speeds up what the next snapshot does
  }

  /** Reads nodes not yet known to this process: after a restart most reports change nothing. */
  async #changedAmong(batch: readonly PendingReport[]): Promise<NodeReport[]> {
    const unknown = batch.filter(({ key }) => !this.#known.get(key)).map(({ report }) => report);
    const rows = unknown.length > 0 ? await nodesByKeys(this.#store.read, unknown) : [];
    const stored = new Map(rows.map((row) => [keyOf(row), row]));
    const changed: NodeReport[] = [];
    for (const { key, report } of batch) {
      const row = this.#known.get(key) ?? stored.get(key);
      const version = report.version ?? row?.version ?? 0;
      const fresh = row && this.#isFresh(row, report, report.last_seen_at);
      const isChange = report.leaving ? row !== undefined : !fresh || row.version !== version;
      const { caps, full_power, sdk } = report;
      if (isChange) changed.push({ ...report, version });
      if (report.leaving) this.#known.delete(key);
      else {
        const last_seen_at = isChange ? report.last_seen_at : (row?.last_seen_at ?? 0);
        this.#known.set(report.owner, key, { version, last_seen_at, caps, full_power, sdk }, row);
        if (this.#queue.has(key)) this.#known.markStale(key); // the next report may have done so before this row was read
      }
    }
    return changed;
  }
}

/** PostgreSQL may be read-only for the sessions of this process alone: older ones of other processes still write. */
function isDiskFull(error: unknown): boolean {
  return error instanceof Failure && error.failure === "storage_full";
}
