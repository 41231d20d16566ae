// Secret keys resolved a moment ago, for the machine endpoints only (decision 144). A revocation in this process drops
// its entry at once; other processes hear of it by notice, and at the latest when the entry's time is up.
import type { Store } from "../../store/store.ts";
import type { Actor, SecretKeyActor } from "../core/actor.ts";
import type { Clock } from "../core/clock.ts";
import { sha256, type Services } from "../core/context.ts";
import { resolveBearer } from "./credentials.ts";

const ENTRIES_MAX = 10_000;
const TOPIC = "secret_key";

type Entry = { readonly actor: SecretKeyActor; readonly until: number };

export class CredentialCache {
  readonly #clock: Clock;
  readonly #ttlMs: number;
  readonly #entries = new Map<string, Entry>();
  /** How often an actor was found here, and how often it was not. */
  readonly reads = { hits: 0, misses: 0 };
  /** Moves with every drop: a resolution that began before one must not be kept after it. */
  #epoch = 0;

  constructor(clock: Clock, ttlMs: number, store: Pick<Store, "onNotice">) {
    this.#clock = clock;
    this.#ttlMs = ttlMs;
    store.onNotice(TOPIC, (id) => this.#drop(id));
    store.onNotice("resync", () => this.#clear());
  }

  get size(): number {
    return this.#entries.size;
  }

  get epoch(): number {
    return this.#epoch;
  }

  find(hash: string): SecretKeyActor | undefined {
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

  keep(hash: string, actor: SecretKeyActor, epoch: number): void {
    if (this.#ttlMs === 0 || epoch !== this.#epoch) return;
    // A Map keeps insertion order: the first entry is the one that would lapse next.
    if (this.#entries.size >= ENTRIES_MAX) this.#entries.delete(this.#entries.keys().next().value ?? "");
    this.#entries.set(hash, { actor, until: this.#clock.now() + this.#ttlMs });
  }

  #drop(id: string): void {
    this.#epoch++;
    for (const [hash, { actor }] of this.#entries) if (actor.id === id) this.#entries.delete(hash);
  }

  #clear(): void {
    this.#epoch++;
    this.#entries.clear();
  }
}

/** Who a machine endpoint's caller is: resolved once, then remembered for a few seconds. */
export function resolveCached(services: Services, bearer: string): Actor | Promise<Actor> {
  const hash = sha256(bearer);
  return services.credentialCache.find(hash) ?? resolveAndKeep(services, bearer, hash);
}

async function resolveAndKeep(services: Services, bearer: string, hash: string): Promise<Actor> {
  const { epoch } = services.credentialCache;
  const actor = await resolveBearer(services, bearer);
  if (actor.kind === "secret_key") services.credentialCache.keep(hash, actor, epoch);
  return actor;
}

/** After a secret key was revoked, shortened or quarantined: no process goes on believing in what it remembers. */
export async function forgetSecretKey(services: Services, id: string): Promise<void> {
  await services.store.notify(TOPIC, id).catch((error: unknown) => {
    services.log.warn("other processes learn of this secret key only when their cache lapses", {
      id,
      error: String(error),
    });
  });
}
