// Argon2id behind a concurrency limit: a bounded number runs, a bounded number waits up to two seconds, others get 503.
// Caution: a verification must take the same time whether or not the account exists, so unknown ones verify a dummy hash.
import { availableParallelism } from "node:os";
import { hash as argonHash, needsRehash, verify as argonVerify } from "argon2";
import { fail } from "../../kernel/errors.ts";

export type PasswordCost = { memoryCost: number; timeCost: number; parallelism: number };

/** Above ASVS's floor of 19456 KiB with t=2. */
export const PASSWORD_COST: PasswordCost = { memoryCost: 65_536, timeCost: 2, parallelism: 1 };

const AT_ONCE_MAX = 4;
const QUEUE_MAX = 32;
const WAIT_MS = 2_000;
const DUMMY_SALT = "a2V5cmFjay1ub2JvZHk";

type Waiting = { start: () => void; timer: NodeJS.Timeout };

/** Runs up to `atOnce` tasks; the next 32 wait up to two seconds; further ones are rejected at once. */
export class ConcurrencyLimit {
  readonly #atOnce: number;
  readonly #queue: Waiting[] = [];
  #running = 0;

  constructor(atOnce = Math.min(AT_ONCE_MAX, Math.max(1, availableParallelism() - 1))) {
    this.#atOnce = atOnce;
  }

  async run<T>(task: () => Promise<T>): Promise<T> {
    await this.#enter();
    try {
      return await task();
    } finally {
      this.#leave();
    }
  }

  async #enter(): Promise<void> {
    if (this.#running < this.#atOnce) {
      this.#running++;
      return;
    }
    if (this.#queue.length >= QUEUE_MAX) throw fail("overloaded");
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#queue.splice(this.#queue.indexOf(waiting), 1);
        reject(fail("overloaded"));
      }, WAIT_MS);
      const waiting: Waiting = { start: resolve, timer };
      this.#queue.push(waiting);
    });
  }

  /** Hands the slot to the oldest waiting task, so that a new one cannot overtake it. */
  #leave(): void {
    const next = this.#queue.shift();
    if (!next) {
      this.#running--;
      return;
    }
    clearTimeout(next.timer);
    next.start();
  }
}

/** The same bytes for the same password on every keyboard (RFC 8265 OpaqueString: NFC). */
export function normalizePassword(password: string): string {
  return password.normalize("NFC");
}

export class Passwords {
  readonly #cost: PasswordCost;
  readonly #gate: ConcurrencyLimit;
  readonly #dummyHash: string;

  constructor(cost: PasswordCost = PASSWORD_COST, gate = new ConcurrencyLimit()) {
    this.#cost = cost;
    this.#gate = gate;
    const { memoryCost: m, timeCost: t, parallelism: p } = cost;
    this.#dummyHash = `$argon2id$v=19$m=${m},t=${t},p=${p}$${DUMMY_SALT}$${"A".repeat(43)}`;
  }

  hash(password: string): Promise<string> {
    return this.#gate.run(() => argonHash(normalizePassword(password), this.#cost));
  }

  /** `phc` is null for an address without an account: takes the same time and returns false. */
  verify(phc: string | null, password: string): Promise<boolean> {
    return this.#gate.run(async () => {
      const right = await argonVerify(phc ?? this.#dummyHash, normalizePassword(password));
      return right && phc !== null;
    });
  }

  /** Whether a stored hash was made with other parameters than the current ones. */
  isStale(phc: string): boolean {
    return needsRehash(phc, this.#cost);
  }
}
