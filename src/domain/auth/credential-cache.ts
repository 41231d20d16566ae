// Caches resolved secret keys for a few seconds, for machine endpoints only. Revocation, rotation and quarantine evict
// the entry at once in this process and by notification in others; if one is lost, the entry expires. What waits on
// behalf of a key is notified of its eviction, and on PostgreSQL as soon if the notification is lost.
// bench: ratelimit/check
import { FairMap } from "../../fairness/fair-map.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import { fail } from "../../kernel/errors.ts";
import type { Log } from "../../platform/log.ts";
import { workingSecretKeys } from "../../store/queries/secret-keys.ts";
import type { Store } from "../../store/store.ts";
import { ownerOf, type Actor, type SecretKeyActor } from "../core/actor.ts";
import type { Clock } from "../core/clock.ts";
import { KeyedListeners } from "../../platform/keyed-listeners.ts";

const TOPIC = "secret_key";
/** Keys of one failed notification that are logged. */
const LOGGED_MAX = 10;
/** The shortest time between two checks of the keys that requests wait with. */
const RECHECK_MIN_MS = 500;
/** The time between two checks, as a part of the TTL. */
const RECHECK_PART = 1 / 10;

type ResolveActor = () => Actor | Promise<Actor>;
type Entry = { readonly actor: SecretKeyActor; readonly until: number };

type Options = {
  readonly clock: Clock;
  readonly ttlMs: number;
  readonly ledger: Ledger;
  readonly store: Pick<Store, "dialect" | "read" | "onNotice" | "notify" | "durable">;
  readonly log: Pick<Log, "warn">;
};

export class CredentialCache {
  readonly #clock: Clock;
  readonly #ttlMs: number;
  /** How long an entry is used. */
  readonly #entryMs: number;
  readonly #store: Options["store"];
  readonly #log: Options["log"];
  readonly #entries: FairMap<Entry>;
  /** The hash of each cached key by its id: an eviction must not look at all keys. */
  readonly #hashes = new Map<string, string>();
  readonly #loading = new Map<string, Promise<Actor>>();
  /** By secret key; bounded by the number of waiting requests. */
  readonly #listeners = new KeyedListeners();
  readonly #timer: NodeJS.Timeout | undefined;
  /** The check that is under way. */
  #rechecking: Promise<void> | undefined;
  /** Cache hits and misses, for /metrics. */
  readonly reads = { hits: 0, misses: 0 };
  /** Raised by every eviction: a resolution that began before one must not be cached after it. */
  #epoch = 0;

  constructor({ clock, ttlMs, ledger, store, log }: Options) {
    this.#clock = clock;
    this.#ttlMs = ttlMs;
    this.#entryMs = ttlMs;
    this.#entries = new FairMap(ledger, (_hash, { actor }) => this.#hashes.delete(actor.id));
    this.#store = store;
    this.#log = log;
    store.onNotice(TOPIC, (id) => this.#evict(id));
    store.onNotice("resync", () => {
      this.#clear();
      void this.evictEnded();
    });
    if (store.dialect !== "postgres") return;
    // A wait that begins with an entry at its end is checked once more within the TTL.
    const everyMs = Math.max(RECHECK_MIN_MS, ttlMs * RECHECK_PART);
    this.#entryMs = Math.max(ttlMs / 2, ttlMs - everyMs);
    this.#timer = setInterval(() => void this.evictEnded(), everyMs).unref();
  }

  get size(): number {
    return this.#entries.size;
  }

  get epoch(): number {
    return this.#epoch;
  }

  get(hash: string): SecretKeyActor | undefined {
    const entry = this.#entries.get(hash);
    if (entry) {
      const now = this.#clock.now();
      const { expires_at } = entry.actor;
      if (now < entry.until && (expires_at === null || now < expires_at)) {
        this.reads.hits++;
        return entry.actor;
      }
      this.#entries.delete(hash);
    }
    this.reads.misses++;
    return undefined;
  }

  /** The actor of a secret key, if cached. For scheduling only, never for access decisions. */
  peek(hash: string): SecretKeyActor | undefined {
    return this.#entries.get(hash)?.actor;
  }

  /** Resolves and caches. Concurrent callers share one resolution, unless there was an eviction between them. */
  load(hash: string, resolve: ResolveActor): Promise<Actor> {
    if (this.#ttlMs === 0) return this.#resolveDurable(resolve);
    let loading = this.#loading.get(hash);
    if (!loading) {
      loading = this.#load(hash, resolve).finally(() => {
        if (this.#loading.get(hash) === loading) this.#loading.delete(hash);
      });
      this.#loading.set(hash, loading);
    }
    return loading;
  }

  async #load(hash: string, resolve: ResolveActor): Promise<Actor> {
    const epoch = this.#epoch;
    let actor = await this.#resolveDurable(resolve);
    if (epoch !== this.#epoch)
      actor = await this.#resolveDurable(resolve); // the eviction may be of this key
    else if (actor.kind === "secret_key") this.set(hash, actor, epoch);
    return actor;
  }

  /** Some responses that rely on the entry do not wait for it to be durable. */
  async #resolveDurable(resolve: ResolveActor): Promise<Actor> {
    const actor = await resolve();
    const unsynced = this.#store.durable();
    if (!unsynced) return actor;
    await unsynced.catch(() => {
      throw fail("unavailable");
    });
    return actor;
  }

  set(hash: string, actor: SecretKeyActor, epoch: number): void {
    if (this.#ttlMs === 0 || epoch !== this.#epoch) return;
    const entry = { actor, until: this.#clock.now() + this.#entryMs };
    if (this.#entries.set(ownerOf(actor), hash, entry)) this.#hashes.set(actor.id, hash);
  }

  /** After secret keys were revoked, shortened or quarantined: evicts them here and in every other process. */
  async invalidate(ids: readonly string[]): Promise<void> {
    await this.#store.notify(TOPIC, ...ids).catch((error: unknown) => {
      for (const id of ids.slice(0, LOGGED_MAX))
        this.#log.warn("other processes keep this secret key until their cache entry expires", {
          id,
          error: String(error),
        });
    });
  }

  /** Calls `listener` when the key may have ended or changed. Returns how to unregister it. */
  onEvicted(id: string, listener: () => void): () => void {
    return this.#listeners.on(id, listener);
  }

  /**
   * Ends what waits with a key that has ended without a notification: one statement for all of them, and one at a
   * time, or the checks of a database that hangs would use up its connections.
   */
  evictEnded(): Promise<void> {
    this.#rechecking ??= this.#recheck().finally(() => (this.#rechecking = undefined));
    return this.#rechecking;
  }

  async #recheck(): Promise<void> {
    const waiting = this.#listeners.keys();
    if (waiting.length === 0) return;
    try {
      const working = await workingSecretKeys(this.#store.read, waiting, this.#clock.now());
      for (const id of waiting) if (!working.has(id)) this.#evict(id);
    } catch {
      // Without the database nothing is known to have ended; the next check follows.
    }
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #evict(id: string): void {
    this.#epoch++;
    this.#loading.clear();
    for (const listener of this.#listeners.of(id)) listener();
    const hash = this.#hashes.get(id);
    if (hash !== undefined) this.#entries.delete(hash);
  }

  #clear(): void {
    this.#epoch++;
    this.#loading.clear();
    this.#entries.clear();
  }
}
