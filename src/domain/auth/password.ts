// Argon2id behind a fair queue.
// Caution: a verification must take the same time whether or not the account exists, so unknown ones verify a dummy
// hash.
import { hash as argonHash, needsRehash, verify as argonVerify } from "argon2";
import type { Ledger } from "../../fairness/ledger.ts";
import { PasswordQueue, type PasswordCaller } from "./password-queue.ts";

export type PasswordCost = { memoryCost: number; timeCost: number; parallelism: number };

/** Above ASVS's floor of 19456 KiB with t=2. */
export const PASSWORD_COST: PasswordCost = { memoryCost: 65_536, timeCost: 2, parallelism: 1 };

const DUMMY_SALT = "a2V5cmFjay1ub2JvZHk";

/** The same bytes for the same password on every keyboard (RFC 8265 OpaqueString: NFC). */
export function normalizePassword(password: string): string {
  return password.normalize("NFC");
}

export class Passwords {
  readonly #cost: PasswordCost;
  readonly #queue: PasswordQueue;
  readonly #dummyHash: string;

  constructor(waiting: Ledger, cost: PasswordCost = PASSWORD_COST) {
    this.#cost = cost;
    this.#queue = new PasswordQueue(waiting);
    const { memoryCost: m, timeCost: t, parallelism: p } = cost;
    this.#dummyHash = `$argon2id$v=19$m=${m},t=${t},p=${p}$${DUMMY_SALT}$${"A".repeat(43)}`;
  }

  hash(caller: PasswordCaller, password: string): Promise<string> {
    return this.#queue.run(caller, () => argonHash(normalizePassword(password), this.#cost));
  }

  /** `phc` is null for an address without an account: takes the same time and returns false. */
  verify(caller: PasswordCaller, phc: string | null, password: string): Promise<boolean> {
    return this.#queue.run(caller, async () => {
      const right = await argonVerify(phc ?? this.#dummyHash, normalizePassword(password));
      return right && phc !== null;
    });
  }

  /** Whether a stored hash was made with other parameters than the current ones. */
  isStale(phc: string): boolean {
    return needsRehash(phc, this.#cost);
  }
}
