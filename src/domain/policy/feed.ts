// In-process state of the policy feed: project heads, cached pages and long polls. Caution: heads are cached only on
// SQLite, where every change passes through this process. On PostgreSQL another process may have changed the policy,
// and a poll after a revocation must see it, so the head is always read. Notices of other processes only shorten a
// wait: they may be lost. bench: feed/unchanged-poll
import { FairMap } from "../../fairness/fair-map.ts";
import { FairSet } from "../../fairness/fair-set.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import { cellOwner, type Owner } from "../../fairness/owners.ts";
import { fail } from "../../kernel/errors.ts";
import type { Store } from "../../store/store.ts";
import { headsByIds } from "../../store/queries/policy.ts";
import { Subscription, type OnDisconnect } from "../core/subscription.ts";
import type { Head } from "./head.ts";
import { HeadRounds } from "./head-rounds.ts";
import type { PageCache } from "./page-cache.ts";
import { Waiters } from "./waiters.ts";

/** How often to read the heads that polls wait for, in case a notification was lost. */
const RECHECK_MS = 1_000;

export class Feed {
  readonly pages: PageCache;
  /** Cache hits and misses of heads, for /metrics. */
  readonly reads = { hits: 0, misses: 0 };
  /** Versions that another process wrote and whose notification did not arrive, for /metrics. */
  noticesMissed = 0;
  readonly #store: Store;
  readonly #heads: FairMap<Head>;
  readonly #rounds: HeadRounds;
  /** By project. Polls of test keys are woken apart: however many there are, they delay no change for the others. */
  readonly #waiters = { live: new Map<string, Waiters>(), test: new Map<string, Waiters>() };
  readonly #waiting: FairSet<Subscription<Head>>;
  readonly #recheckTimer: NodeJS.Timeout | undefined;
  /** Raised by every change: a head read before one must not be cached after it. */
  #epoch = 0;
  #stopped = false;

  /** `polls` bounds the subscriptions; one that is evicted ends early. `heads` bounds the cached heads. */
  constructor(store: Store, polls: Ledger, heads: Ledger, pages: PageCache) {
    this.#store = store;
    this.#heads = new FairMap(heads);
    this.pages = pages;
    this.#rounds = new HeadRounds((ids) => headsByIds(store.read, ids));
    this.#waiting = new FairSet(polls, (subscription) => subscription.end());
    if (store.dialect === "postgres")
      this.#recheckTimer = setInterval(() => void this.recheckHeads(), RECHECK_MS).unref();
    store.onPolicyChange((bumped) => {
      this.#epoch++;
      for (const { project_id, version } of bumped) {
        this.#heads.delete(project_id);
        this.#wake(project_id, version);
      }
    });
    store.onNotice("resync", () => {
      this.#epoch++;
      this.#heads.clear();
      for (const waiters of this.#allWaiters()) waiters.wake();
    });
  }

  /** Statements that read heads, for /metrics. */
  get headReads(): number {
    return this.#rounds.count;
  }

  /** Open subscriptions, for /metrics. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** The head, if it is cached and at this version. */
  headAt(version: number, workspace_id: string, project_id: string): Head | undefined {
    const known = this.#heads.get(project_id);
    if (known?.version !== version || known.workspace_id !== workspace_id) return undefined;
    this.reads.hits++;
    return known;
  }

  async head(workspace_id: string, project_id: string): Promise<Head> {
    const known = this.#heads.get(project_id);
    if (known) this.reads.hits++;
    return requireOwner(known ?? (await this.#readHead(project_id)), workspace_id);
  }

  async #readHead(project_id: string): Promise<Head> {
    const epoch = this.#epoch;
    this.reads.misses++;
    const row = await this.#rounds.read(project_id);
    if (!row) throw fail("project_not_found");
    const head: Head = {
      project_id,
      workspace_id: row.workspace_id,
      version: row.policy_version,
      min_delta_version: row.min_delta_version,
      default_rate_limits: row.default_rate_limits,
      deleted: row.deleted_at !== null,
      features: row.features,
      key_prefixes: row.key_prefixes,
    };
    if (this.#store.dialect === "sqlite" && epoch === this.#epoch) {
      this.#heads.set(cellOwner(row.workspace_id, "live", row.account_id), project_id, head);
    }
    return head;
  }

  /**
   * `version`: the version that the caller has. Undefined when the owner is at its bound, or the service is stopping.
   */
  subscribe(
    owner: Owner,
    { project_id, version }: Pick<Head, "project_id" | "version">,
    waitMs: number,
    onDisconnect: OnDisconnect,
  ): Subscription<Head> | undefined {
    if (this.#stopped) return undefined;
    const byProject = this.#waitersOf(owner);
    const waiters = byProject.get(project_id) ?? new Waiters(() => this.#readHead(project_id));
    const subscription = new Subscription<Head>(waitMs, onDisconnect, () => {
      this.#waiting.delete(subscription);
      if (waiters.delete(subscription)) this.#forgetIfIdle(byProject, project_id, waiters);
    });
    if (!this.#waiting.add(owner, subscription)) {
      subscription.close();
      return undefined;
    }
    byProject.set(project_id, waiters);
    waiters.add(subscription, version);
    return subscription;
  }

  /** True while wakes of the project pause: a long poll that knows `since` waits for the next one. */
  defers(owner: Owner, { project_id, version }: Head, since: number): boolean {
    return this.#waitersOf(owner).get(project_id)?.defers(since, version) ?? false;
  }

  /** Wakes the polls of projects that changed without a notification. */
  async recheckHeads(): Promise<void> {
    const { live, test } = this.#waiters;
    const waiting = [...live, ...test].filter(([, { size }]) => size > 0).map(([project_id]) => project_id);
    await Promise.allSettled(
      [...new Set(waiting)].map(async (project_id) => {
        const row = await this.#rounds.read(project_id);
        if (row && this.#wake(project_id, row.policy_version)) this.noticesMissed++;
      }),
    );
  }

  #waitersOf(owner: Owner): Map<string, Waiters> {
    return owner.kind === "cell" ? this.#waiters[owner.env] : this.#waiters.live;
  }

  *#allWaiters(): Iterable<Waiters> {
    yield* this.#waiters.live.values();
    yield* this.#waiters.test.values();
  }

  /** Returns false if all polls of the project know the version already, or are about to. */
  #wake(project_id: string, version: number): boolean {
    const { live, test } = this.#waiters;
    const woken = [live, test].map((byProject) => byProject.get(project_id)?.wake(version));
    return woken.includes(true);
  }

  /** Ends all subscriptions and rejects new ones. */
  stop(): void {
    this.#stopped = true;
    clearInterval(this.#recheckTimer);
    for (const waiters of this.#allWaiters()) waiters.stop();
    for (const subscription of this.#waiting) subscription.end();
  }

  /** Keeps the waiters during their pause, because their polls return at once. */
  #forgetIfIdle(byProject: Map<string, Waiters>, project_id: string, waiters: Waiters): void {
    if (waiters.size > 0 || byProject.get(project_id) !== waiters) return;
    if (waiters.pauseMs === 0) byProject.delete(project_id);
    else setTimeout(() => this.#forgetIfIdle(byProject, project_id, waiters), waiters.pauseMs).unref();
  }
}

function requireOwner(head: Head, workspace_id: string): Head {
  if (head.workspace_id !== workspace_id) throw fail("project_not_found");
  return head;
}
