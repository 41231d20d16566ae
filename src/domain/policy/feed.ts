// The feed's memory in this process: each project's head, the pages, and the polls that wait for a version to move.
// A head may be remembered only where every change passes through this process (SQLite); on PostgreSQL another process
// may have moved it, and a poll after a revocation must see it, so there the head is always read.
import { BoundedMap } from "../../kernel/lru.ts";
import { fail } from "../../kernel/errors.ts";
import type { Store } from "../../store/store.ts";
import { headById } from "../../store/queries/policy.ts";
import { PageCache } from "./page-cache.ts";
import { Subscription, type OnDisconnect } from "../core/subscription.ts";

export type Head = {
  readonly project_id: string;
  readonly workspace_id: string;
  readonly version: number;
  readonly min_delta_version: number;
  readonly default_rate_limits: string;
  readonly deleted: boolean;
};

const HEADS_MAX = 10_000;
const SUBSCRIPTIONS_MAX = 10_000;

export class Feed {
  readonly pages = new PageCache();
  /** How often a head was found in memory, and how often it was read. */
  readonly reads = { hits: 0, misses: 0 };
  readonly #store: Store;
  readonly #heads = new BoundedMap<string, Head>({ max: HEADS_MAX });
  readonly #subscriptions = new Map<string, Set<Subscription>>();
  /** Reads that began after the project's last wake: those woken by it share one. */
  readonly #rereads = new Map<string, Promise<Head>>();
  /** Moves with every change: a head read before it must not be kept after it. */
  #epoch = 0;
  #waiting = 0;
  #stopped = false;

  constructor(store: Store) {
    this.#store = store;
    store.onBump((bumped) => {
      this.#epoch++;
      for (const { project_id } of bumped) {
        this.#heads.delete(project_id);
        this.#notify(project_id);
      }
    });
    store.onNotice("resync", () => {
      this.#epoch++;
      this.#heads.clear();
      for (const project_id of this.#subscriptions.keys()) this.#notify(project_id);
    });
  }

  get waiting(): number {
    return this.#waiting;
  }

  head(workspace_id: string, project_id: string): Head | Promise<Head> {
    const known = this.#heads.get(project_id);
    if (!known) return this.#readHead(workspace_id, project_id);
    this.reads.hits++;
    return owned(known, workspace_id);
  }

  /** For somebody who was just woken: a thousand of them read the head once. */
  async headAfterChange(workspace_id: string, project_id: string): Promise<Head> {
    let reread = this.#rereads.get(project_id);
    if (!reread) {
      const work = (async () => this.head(workspace_id, project_id))();
      reread = work.finally(() => {
        if (this.#rereads.get(project_id) === reread) this.#rereads.delete(project_id);
      });
      this.#rereads.set(project_id, reread);
    }
    return owned(await reread, workspace_id);
  }

  async #readHead(workspace_id: string, project_id: string): Promise<Head> {
    const epoch = this.#epoch;
    this.reads.misses++;
    const row = await headById.first(this.#store.read, { id: project_id });
    if (!row) throw fail("project_not_found");
    const head: Head = {
      project_id,
      workspace_id: row.workspace_id,
      version: row.policy_version,
      min_delta_version: row.min_delta_version,
      default_rate_limits: row.default_rate_limits,
      deleted: row.deleted_at !== null,
    };
    if (this.#store.dialect === "sqlite" && epoch === this.#epoch) {
      this.#heads.set(project_id, head);
    }
    return owned(head, workspace_id);
  }

  /** Joins those who wait for this project; undefined when there are too many, or the service is stopping. */
  subscribe(project_id: string, waitMs: number, onDisconnect: OnDisconnect): Subscription | undefined {
    if (this.#stopped || this.#waiting >= SUBSCRIPTIONS_MAX) return undefined;
    const set = this.#subscriptions.get(project_id) ?? new Set();
    this.#subscriptions.set(project_id, set);
    const subscription = new Subscription(waitMs, onDisconnect, () => {
      if (!set.delete(subscription)) return;
      this.#waiting--;
      if (set.size === 0 && this.#subscriptions.get(project_id) === set) this.#subscriptions.delete(project_id);
    });
    set.add(subscription);
    this.#waiting++;
    return subscription;
  }

  /** Answers everybody who waits, and lets nobody wait any more. */
  stop(): void {
    this.#stopped = true;
    for (const set of this.#subscriptions.values()) for (const subscription of set) subscription.end();
  }

  #notify(project_id: string): void {
    this.#rereads.delete(project_id);
    for (const subscription of this.#subscriptions.get(project_id) ?? []) subscription.notify();
  }
}

function owned(head: Head, workspace_id: string): Head {
  if (head.workspace_id !== workspace_id) throw fail("project_not_found");
  return head;
}
