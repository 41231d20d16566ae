// In-process state of the policy feed: project heads, cached pages and long polls. Caution: heads are cached only on SQLite,
// where every change passes through this process. On PostgreSQL another process may have changed the policy, and a poll
// after a revocation must see it, so the head is always read. bench: feed/unchanged-poll
import { FairSet } from "../../fairness/fair-set.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import type { Owner } from "../../fairness/owners.ts";
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

export class Feed {
  readonly pages = new PageCache();
  /** Cache hits and misses of heads, for /metrics. */
  readonly reads = { hits: 0, misses: 0 };
  readonly #store: Store;
  readonly #heads = new BoundedMap<string, Head>({ max: HEADS_MAX });
  readonly #subscriptions = new Map<string, Set<Subscription>>();
  readonly #waiting: FairSet<Subscription>;
  /** One read per project and change, shared by all polls that the change has woken. */
  readonly #rereads = new Map<string, Promise<Head>>();
  /** Raised by every change: a head read before one must not be cached after it. */
  #epoch = 0;
  #stopped = false;

  /** `polls` bounds the subscriptions; one that is displaced ends early. */
  constructor(store: Store, polls: Ledger) {
    this.#store = store;
    this.#waiting = new FairSet(polls, (subscription) => subscription.end());
    store.onPolicyChange((bumped) => {
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

  /** Open subscriptions, for /metrics. */
  get waiting(): number {
    return this.#waiting.size;
  }

  head(workspace_id: string, project_id: string): Head | Promise<Head> {
    const known = this.#heads.get(project_id);
    if (!known) return this.#readHead(workspace_id, project_id);
    this.reads.hits++;
    return requireOwner(known, workspace_id);
  }

  /** The head for a poll that was just woken: all polls of the project share one read. */
  async headAfterChange(workspace_id: string, project_id: string): Promise<Head> {
    let reread = this.#rereads.get(project_id);
    if (!reread) {
      const work = (async () => this.head(workspace_id, project_id))();
      reread = work.finally(() => {
        if (this.#rereads.get(project_id) === reread) this.#rereads.delete(project_id);
      });
      this.#rereads.set(project_id, reread);
    }
    return requireOwner(await reread, workspace_id);
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
    return requireOwner(head, workspace_id);
  }

  /** Undefined when the owner is at its bound, or the service is stopping. */
  subscribe(owner: Owner, project_id: string, waitMs: number, onDisconnect: OnDisconnect): Subscription | undefined {
    if (this.#stopped) return undefined;
    const set = this.#subscriptions.get(project_id) ?? new Set();
    const subscription = new Subscription(waitMs, onDisconnect, () => {
      this.#waiting.delete(subscription);
      if (!set.delete(subscription)) return;
      if (set.size === 0 && this.#subscriptions.get(project_id) === set) this.#subscriptions.delete(project_id);
    });
    if (!this.#waiting.add(owner, subscription)) {
      subscription.close();
      return undefined;
    }
    this.#subscriptions.set(project_id, set.add(subscription));
    return subscription;
  }

  /** Ends all subscriptions and rejects new ones. */
  stop(): void {
    this.#stopped = true;
    for (const set of this.#subscriptions.values()) for (const subscription of set) subscription.end();
  }

  #notify(project_id: string): void {
    this.#rereads.delete(project_id);
    for (const subscription of this.#subscriptions.get(project_id) ?? []) subscription.notify();
  }
}

function requireOwner(head: Head, workspace_id: string): Head {
  if (head.workspace_id !== workspace_id) throw fail("project_not_found");
  return head;
}
