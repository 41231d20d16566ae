// Caches resolved secret keys for a few seconds, for machine endpoints only. Revocation, rotation and quarantine evict the
// entry at once in this process and by notice in others; if a notice is lost, the entry expires. bench: ratelimit/check
import { BoundedMap } from "../../kernel/lru.ts";
import type { Log } from "../../platform/log.ts";
import type { Store } from "../../store/store.ts";
import type { SecretKeyActor } from "../core/actor.ts";
import type { Clock } from "../core/clock.ts";

const ENTRIES_MAX = 10_000;
const TOPIC = "secret_key";

type Entry = { readonly actor: SecretKeyActor; readonly until: number };

type Options = {
  readonly clock: Clock;
  readonly ttlMs: number;
  readonly store: Pick<Store, "onNotice" | "notify">;
  readonly log: Pick<Log, "warn">;
};

export class CredentialCache {
  readonly #clock: Clock;
  readonly #ttlMs: number;
  readonly #store: Options["store"];
  readonly #log: Options["log"];
  readonly #entries = new BoundedMap<string, Entry>({ max: ENTRIES_MAX });
  /** Cache hits and misses, for /metrics. */
  readonly reads = { hits: 0, misses: 0 };
  /** Raised by every eviction: a resolution that began before one must not be cached after it. */
  #epoch = 0;

  constructor({ clock, ttlMs, store, log }: Options) {
    this.#clock = clock;
    this.#ttlMs = ttlMs;
    this.#store = store;
    this.#log = log;
    store.onNotice(TOPIC, (id) => this.#evict(id));
    store.onNotice("resync", () => this.#clear());
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

  set(hash: string, actor: SecretKeyActor, epoch: number): void {
    if (this.#ttlMs === 0 || epoch !== this.#epoch) return;
    this.#entries.set(hash, { actor, until: this.#clock.now() + this.#ttlMs });
  }

  /** After a secret key was revoked, shortened or quarantined: evicts it here and in every other process. */
  async invalidate(id: string): Promise<void> {
    await this.#store.notify(TOPIC, id).catch((error: unknown) => {
      this.#log.warn("other processes keep this secret key until their cache entry expires", {
        id,
        error: String(error),
      });
    });
  }

  #evict(id: string): void {
    this.#epoch++;
    for (const [hash, { actor }] of this.#entries) if (actor.id === id) this.#entries.delete(hash);
  }

  #clear(): void {
    this.#epoch++;
    this.#entries.clear();
  }
}
