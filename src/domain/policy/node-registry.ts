// Records which nodes poll the feed and which policy version each has acknowledged. Polls never wait for the database:
// reports are collected and written in batches, and only when they change something.
import { setTimeout as sleep } from "node:timers/promises";
import { FairSet } from "../../fairness/fair-set.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import { cellOwner } from "../../fairness/owners.ts";
import { BoundedMap } from "../../kernel/lru.ts";
import { capabilitiesIn } from "../../kernel/policy/capabilities.ts";
import type { Log } from "../../platform/log.ts";
import type { Store } from "../../store/store.ts";
import { nodesByKeys } from "../../store/queries/nodes.ts";
import type { EnvScope, PolicyNodeRow } from "../../store/schema/tables.ts";
import type { Clock } from "../core/clock.ts";
import type { Head } from "./head.ts";
import { record } from "../core/record.ts";
import { keyOf, writeReports, type NodeBounds, type NodeReport } from "./node-reports.ts";

export const NODE_RETENTION_MS = 24 * 3_600_000;
const SEEN_EVERY_MS = 30_000;
/** Notices of nodes that left. */
const TOPIC = "node";
const WRITTEN_MAX = 50_000;
const WRITE_MAX = 500;
/** Between two batches: the nodes of a fleet report one after the other, and a commit for each costs as much as its poll. */
const GATHER_MS = 10;

/** A node as its poll shows it: the capabilities that it announces, whether its secret key is unrestricted, and its library. */
export type PollingNode = {
  node_id: string;
  env_scope: EnvScope;
  caps: number;
  full_power: boolean;
  sdk: string | null;
};

/** What a poll shows of a node beside its version. */
type NodeTraits = Pick<PolicyNodeRow, "caps" | "full_power" | "sdk">;
type Written = NodeTraits & Pick<PolicyNodeRow, "version" | "last_seen_at">;

type Options = {
  store: Store;
  clock: Clock;
  log: Log;
  /** Reports that wait to be written. */
  waiting: Ledger;
  bounds: NodeBounds;
};

export class NodeRegistry {
  /** Reports that found no room, for /metrics. */
  dropped = 0;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  /** What is known to be in the database, so that a report without news costs no write. */
  readonly #written = new BoundedMap<string, Written>({ max: WRITTEN_MAX });
  readonly #pending = new Map<string, NodeReport>();
  readonly #waiting: FairSet<string>;
  readonly #bounds: NodeBounds;
  readonly #listeners = new Set<() => void>();
  /** Nodes that left through another process during a write. */
  readonly #left = new Set<string>();
  #writing: Promise<void> | undefined;

  constructor({ store, clock, log, waiting, bounds }: Options) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
    this.#bounds = bounds;
    this.#waiting = new FairSet(waiting, (key) => {
      this.#pending.delete(key);
      this.dropped++;
    });
    // A node that left through one process may come back to another, which must then register it again.
    store.onNotice(TOPIC, (key) => {
      this.#written.delete(key);
      if (this.#writing) this.#left.add(key);
    });
    store.onNotice("resync", () => this.#written.clear());
  }

  acknowledge(head: Head, node: PollingNode, version: number): void {
    const key = keyOf({ project_id: head.project_id, ...node });
    const known = this.#written.get(key);
    if (known?.version === version && this.#isFresh(known, node)) return;
    this.#enqueue(head, key, this.#report(head, node, version));
  }

  /**
   * Taking a snapshot shows that the node is alive; it acknowledges a version with its next delta poll. It may have left and
   * started again since, so its row is read again.
   */
  seen(head: Head, node: PollingNode): void {
    const key = keyOf({ project_id: head.project_id, ...node });
    this.#written.delete(key);
    this.#enqueue(head, key, this.#report(head, node, null));
  }

  leave(head: Head, node: PollingNode): void {
    const key = keyOf({ project_id: head.project_id, ...node });
    this.#enqueue(head, key, { ...this.#report(head, node, null), leaving: true });
  }

  /** Whether the database knows the node as it is, and saw it lately. */
  #isFresh(known: Written, node: PollingNode): boolean {
    return hasTraits(known, traitsOf(node)) && this.#clock.now() - known.last_seen_at < SEEN_EVERY_MS;
  }

  #report({ project_id }: Head, node: PollingNode, version: number | null): NodeReport {
    const { node_id, env_scope } = node;
    const last_seen_at = this.#clock.now();
    return { project_id, node_id, env_scope, version, last_seen_at, ...traitsOf(node), leaving: false };
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

  #enqueue({ workspace_id }: Head, key: string, report: NodeReport): void {
    const before = this.#pending.get(key);
    // At the bound one of the largest owner's is dropped: the node reports again with its next poll.
    const owner = cellOwner(workspace_id, report.env_scope === "test" ? "test" : "live");
    if (!before && !this.#waiting.add(owner, key)) {
      this.dropped++;
      return;
    }
    const version = report.version ?? (report.leaving ? null : (before?.version ?? null));
    this.#pending.set(key, { ...report, version });
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
    });
  }

  async #write(): Promise<void> {
    while (this.#pending.size > 0) {
      const reports = [...this.#pending].slice(0, WRITE_MAX);
      for (const [key] of reports) {
        this.#pending.delete(key);
        this.#waiting.delete(key);
      }
      try {
        const changed = await this.#changedAmong(reports);
        const bounds = this.#bounds;
        const without =
          changed.length > 0 ? await record({ store: this.#store }, (tx) => writeReports(tx, changed, bounds)) : [];
        for (const key of [...without.map(keyOf), ...this.#left]) this.#written.delete(key);
        this.#left.clear();
        for (const listener of this.#listeners) listener();
        this.#sayWhoLeft(changed);
      } catch (error) {
        for (const [key] of reports) this.#written.delete(key);
        this.#log.warn("acknowledgements of nodes were not written", { nodes: reports.length, error: String(error) });
      }
      if (this.#pending.size < WRITE_MAX) await sleep(GATHER_MS);
    }
  }

  #sayWhoLeft(changed: readonly NodeReport[]): void {
    const left = changed.filter(({ leaving }) => leaving).map(keyOf);
    if (left.length > 0) this.#store.notify(TOPIC, ...left).catch(() => {}); // only speeds up what the next snapshot does
  }

  /** Reads nodes not yet known to this process: after a restart most reports change nothing. */
  async #changedAmong(reports: [string, NodeReport][]): Promise<NodeReport[]> {
    const unknown = reports.filter(([key]) => !this.#written.has(key)).map(([, report]) => report);
    const rows = unknown.length > 0 ? await nodesByKeys(this.#store.read, unknown) : [];
    const stored = new Map(rows.map((row) => [keyOf(row), row]));
    const changed: NodeReport[] = [];
    for (const [key, report] of reports) {
      const row = this.#written.get(key) ?? stored.get(key);
      const version = report.version ?? row?.version ?? 0;
      const fresh = row && report.last_seen_at - row.last_seen_at < SEEN_EVERY_MS && hasTraits(row, report);
      const isChange = report.leaving ? row !== undefined : !fresh || row.version !== version;
      const { caps, full_power, sdk } = report;
      if (isChange) changed.push({ ...report, version });
      if (report.leaving) this.#written.delete(key);
      else {
        const last_seen_at = isChange ? report.last_seen_at : (row?.last_seen_at ?? 0);
        this.#remember(key, { version, last_seen_at, caps, full_power, sdk });
      }
    }
    return changed;
  }

  #remember(key: string, written: Written): void {
    this.#written.delete(key);
    this.#written.set(key, written);
  }
}

function traitsOf({ caps, full_power, sdk }: PollingNode): NodeTraits {
  return { caps: textOf(caps), full_power: Number(full_power), sdk };
}

function hasTraits(a: NodeTraits, b: NodeTraits): boolean {
  return a.caps === b.caps && a.full_power === b.full_power && a.sdk === b.sdk;
}

/** As stored, for each set. */
const TEXTS: string[] = [];

function textOf(caps: number): string {
  return (TEXTS[caps] ??= capabilitiesIn(caps).join(","));
}
