// Records which nodes poll the feed and which policy version each has acknowledged. Polls never wait for the database:
// reports are collected and written in batches, and only when they change something.
import { BoundedMap } from "../../kernel/lru.ts";
import type { Log } from "../../platform/log.ts";
import type { Store } from "../../store/store.ts";
import {
  deleteNode,
  insertNode,
  nodeByKey,
  surplusNodes,
  updateNode,
  type NodeKey,
} from "../../store/queries/nodes.ts";
import type { Tx } from "../../store/engine/statement.ts";
import type { EnvScope, PolicyNodeRow } from "../../store/schema/tables.ts";
import type { Clock } from "../core/clock.ts";
import type { Head } from "./head.ts";
import { record } from "../core/record.ts";

export const NODES_MAX = 1_000;
export const NODE_RETENTION_MS = 24 * 3_600_000;
const SEEN_EVERY_MS = 30_000;
const WRITTEN_MAX = 50_000;
const PENDING_MAX = 5_000;
const WRITE_MAX = 500;

/** `version` is null when the report acknowledges nothing: the node only took a snapshot, or is leaving. */
type NodeReport = Omit<PolicyNodeRow, "version"> & { version: number | null; leaving: boolean };

export class NodeRegistry {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  /** What is known to be in the database, so that a report without news costs no write. */
  readonly #written = new BoundedMap<string, { version: number; last_seen_at: number }>({ max: WRITTEN_MAX });
  readonly #pending = new Map<string, NodeReport>();
  readonly #listeners = new Set<() => void>();
  #writing: Promise<void> | undefined;

  constructor(store: Store, clock: Clock, log: Log) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
  }

  acknowledge(head: Head, node_id: string, env_scope: EnvScope, version: number): void {
    const key = keyOf(head.project_id, node_id, env_scope);
    const now = this.#clock.now();
    const known = this.#written.get(key);
    if (known?.version === version && now - known.last_seen_at < SEEN_EVERY_MS) return;
    this.#enqueue(key, { project_id: head.project_id, node_id, env_scope, version, last_seen_at: now, leaving: false });
  }

  /** Taking a snapshot shows that the node is alive; it acknowledges a version with its next delta poll. */
  seen(head: Head, node_id: string, env_scope: EnvScope): void {
    const key = keyOf(head.project_id, node_id, env_scope);
    const now = this.#clock.now();
    const known = this.#written.get(key);
    if (known && now - known.last_seen_at < SEEN_EVERY_MS) return;
    this.#enqueue(key, {
      project_id: head.project_id,
      node_id,
      env_scope,
      version: null,
      last_seen_at: now,
      leaving: false,
    });
  }

  leave({ project_id }: Head, node_id: string, env_scope: EnvScope): void {
    const key = keyOf(project_id, node_id, env_scope);
    this.#enqueue(key, {
      project_id,
      node_id,
      env_scope,
      version: null,
      last_seen_at: this.#clock.now(),
      leaving: true,
    });
  }

  /** Resolves when all reports so far are in the database, or were dropped because the write failed. */
  async flushed(): Promise<void> {
    while (this.#writing) await this.#writing;
  }

  /** Registers a listener for written acknowledgements; returns how to unregister it. */
  onWritten(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #enqueue(key: string, report: NodeReport): void {
    const before = this.#pending.get(key);
    // Dropped when the queue is full: the node reports again with its next poll.
    if (!before && this.#pending.size >= PENDING_MAX) return;
    const version = report.version ?? (report.leaving ? null : (before?.version ?? null));
    this.#pending.set(key, { ...report, version });
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
    });
  }

  async #write(): Promise<void> {
    while (this.#pending.size > 0) {
      const reports = [...this.#pending].slice(0, WRITE_MAX);
      for (const [key] of reports) this.#pending.delete(key);
      try {
        const changed = await this.#changedAmong(reports);
        const evicted =
          changed.length > 0 ? await record({ store: this.#store }, (tx) => writeReports(tx, changed)) : [];
        for (const node of evicted) this.#written.delete(keyOf(node.project_id, node.node_id, node.env_scope));
        for (const listener of this.#listeners) listener();
      } catch (error) {
        for (const [key] of reports) this.#written.delete(key);
        this.#log.warn("acknowledgements of nodes were not written", { nodes: reports.length, error: String(error) });
      }
    }
  }

  /** Reads nodes not yet known to this process: after a restart most reports change nothing. */
  async #changedAmong(reports: [string, NodeReport][]): Promise<NodeReport[]> {
    const changed: NodeReport[] = [];
    for (const [key, report] of reports) {
      const row = this.#written.get(key) ?? (await nodeByKey.first(this.#store.read, report));
      const version = report.version ?? row?.version ?? 0;
      const fresh = row && report.last_seen_at - row.last_seen_at < SEEN_EVERY_MS;
      const isChange = report.leaving ? row !== undefined : !fresh || row.version !== version;
      if (isChange) changed.push({ ...report, version });
      if (report.leaving) this.#written.delete(key);
      else this.#remember(key, { version, last_seen_at: isChange ? report.last_seen_at : (row?.last_seen_at ?? 0) });
    }
    return changed;
  }

  #remember(key: string, written: { version: number; last_seen_at: number }): void {
    this.#written.delete(key);
    this.#written.set(key, written);
  }
}

function keyOf(project_id: string, node_id: string, env_scope: EnvScope): string {
  return `${project_id} ${env_scope} ${node_id}`;
}

/** Returns the nodes evicted because their project has too many. */
async function writeReports(tx: Tx, reports: NodeReport[]): Promise<NodeKey[]> {
  const grown = new Set<string>();
  for (const { leaving, ...report } of reports) {
    if (leaving) await deleteNode.run(tx, report);
    else {
      const row = { ...report, version: report.version ?? 0 };
      if ((await updateNode.run(tx, row)) > 0) continue;
      await insertNode.run(tx, row);
      grown.add(report.project_id);
    }
  }
  const evicted: NodeKey[] = [];
  for (const project_id of grown) evicted.push(...(await surplusNodes.all(tx, { project_id, keep: NODES_MAX })));
  for (const node of evicted) await deleteNode.run(tx, node);
  return evicted;
}
