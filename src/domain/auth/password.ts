// Argon2id, and the gate before it: so many at once, so many waiting, so long, then 503. The trap: every verification
// must cost the same whether or not the address has an account, so an unknown one is held against a fixed string.
import { availableParallelism } from "node:os";
import { hash as argonHash, needsRehash, verify as argonVerify } from "argon2";
import { fail } from "../../kernel/errors.ts";

export type PasswordCost = { memoryCost: number; timeCost: number; parallelism: number };

/** Above ASVS's floor of 19456 KiB with t=2. */
export const PASSWORD_COST: PasswordCost = { memoryCost: 65_536, timeCost: 2, parallelism: 1 };

const AT_ONCE_MAX = 4;
const QUEUE_MAX = 32;
const WAIT_MS = 2_000;
const NOBODYS_SALT = "a2V5cmFjay1ub2JvZHk";

type Waiting = { go: () => void; timer: NodeJS.Timeout };

/** Lets `atOnce` tasks run; the next 32 wait up to two seconds; everybody else is refused at once. */
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
      const waiting: Waiting = { go: resolve, timer };
      this.#queue.push(waiting);
    });
  }

  /** The place goes straight to whoever waits longest: nobody can slip in between. */
  #leave(): void {
    const next = this.#queue.shift();
    if (!next) {
      this.#running--;
      return;
    }
    clearTimeout(next.timer);
    next.go();
  }
}

/** One reading of a password whatever keyboard it came from (RFC 8265 OpaqueString: NFC). */
export function normalizePassword(password: string): string {
  return password.normalize("NFC");
}

export class Passwords {
  readonly #cost: PasswordCost;
  readonly #gate: ConcurrencyLimit;
  readonly #nobodys: string;

  constructor(cost: PasswordCost = PASSWORD_COST, gate = new ConcurrencyLimit()) {
    this.#cost = cost;
    this.#gate = gate;
    const { memoryCost: m, timeCost: t, parallelism: p } = cost;
    this.#nobodys = `$argon2id$v=19$m=${m},t=${t},p=${p}$${NOBODYS_SALT}$${"A".repeat(43)}`;
  }

  hash(password: string): Promise<string> {
    return this.#gate.run(() => argonHash(normalizePassword(password), this.#cost));
  }

  /** `phc` is null for an address without an account: the same work, and never true. */
  verify(phc: string | null, password: string): Promise<boolean> {
    return this.#gate.run(async () => {
      const right = await argonVerify(phc ?? this.#nobodys, normalizePassword(password));
      return right && phc !== null;
    });
  }

  /** Whether a stored hash was made with other parameters than today's. */
  isStale(phc: string): boolean {
    return needsRehash(phc, this.#cost);
  }
}
