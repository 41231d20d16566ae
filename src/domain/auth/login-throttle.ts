// The throttle in front of password checks, per address and network. Quota is taken before the check, so that a burst
// cannot pass while the first attempts are still being hashed. Most of it is refunded on success: failures count.
// All attempts together have a far higher limit, because even a right password costs a hash.
import { DAY_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { fail, type Failure } from "../../kernel/errors.ts";
import {
  clearLoginFailures,
  countLoginFailure,
  loginFailures,
  loginNetwork,
  recordLoginNetwork,
} from "../../store/queries/logins.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { RequestSource, Services } from "../core/context.ts";
import { warnOfAttempt } from "../core/security-log.ts";
import type { PasswordCaller } from "./password-queue.ts";
import { networkThrottles, sourceOwner, throttleKey, type Throttle } from "../limits/throttles.ts";
import { record } from "../core/record.ts";

const QUARTER_MS = 15 * MINUTE_MS;
const KNOWN_NETWORK_MS = 30 * DAY_MS;
export const CONSECUTIVE_FAILURES_MAX = 100;

const PER_PAIR: Throttle = { name: "login", limit: 10, windowMs: QUARTER_MS };
const PER_ADDRESS: Throttle = { name: "login_address", limit: 20, windowMs: QUARTER_MS };
const PER_ADDRESS_SLOW: Throttle = { name: "login_address_slow", limit: 1, windowMs: 30_000 };
const PER_NETWORK: Throttle = { name: "login_network", limit: 100, windowMs: QUARTER_MS };
const ATTEMPTS_PER_PAIR: Throttle = { name: "logins", limit: 60, windowMs: QUARTER_MS };
const ATTEMPTS_PER_NETWORK: Throttle = { name: "logins_network", limit: 600, windowMs: QUARTER_MS };
const CONSECUTIVE: Throttle = { name: "login_consecutive", limit: CONSECUTIVE_FAILURES_MAX, windowMs: QUARTER_MS };

/** One admitted password check. */
export type LoginAttempt = {
  readonly caller: PasswordCaller;
  /** The password was wrong: keeps the quota and counts one more consecutive failure. */
  failed(): Promise<void>;
  /** The password was right: returns the quota of failures. */
  passed(): void;
  /** The password was not checked: returns all quota. */
  refund(): void;
  /** Clears the failures, in the transaction of a successful login. */
  succeeded(tx: Tx): Promise<void>;
};

async function startLoginAttempt(
  services: Services,
  email_key: string,
  from: RequestSource | undefined,
): Promise<LoginAttempt> {
  const address_key = throttleKey(services, email_key);
  const network = from?.network ?? "";
  const network_key = throttleKey(services, network);
  const { read } = services.store;
  const since = services.clock.now() - KNOWN_NETWORK_MS;
  // A network with a recent login to this account has its own bucket, so attackers elsewhere cannot lock the person
  // out.
  const known = (await loginNetwork.first(read, { address_key, network_key, since })) !== undefined;
  const bucket = known ? network_key : "";
  const taken = takeQuota(services, { address_key, network, known });
  const giveBack = (quota: TakenQuota[]): void => {
    for (const [throttle, subject] of quota) services.throttles.refund(throttle, subject);
  };
  const refund = (): void => giveBack(taken);
  const run = await loginFailures.first(read, { address_key, bucket });
  if (services.settings.throttle && (run?.consecutive ?? 0) >= CONSECUTIVE_FAILURES_MAX) {
    refund();
    throw services.throttles.refusal(CONSECUTIVE, undefined, "login_disabled");
  }
  return {
    caller: { network, known },
    passed: () => giveBack(taken.filter(([{ name }]) => !ATTEMPTS.includes(name))),
    refund,
    async failed() {
      const failure = { address_key, bucket, now: services.clock.now() };
      await record(services, (tx) => countLoginFailure.run(tx, failure), { owner: sourceOwner(from) });
    },
    async succeeded(tx) {
      await clearLoginFailures.run(tx, { address_key, bucket });
      await recordLoginNetwork.run(tx, { address_key, network_key, succeeded_at: services.clock.now() });
    },
  };
}

const ATTEMPTS = [ATTEMPTS_PER_PAIR.name, ATTEMPTS_PER_NETWORK.name];

type TakenQuota = readonly [Throttle, string];

type Attempt = { address_key: string; network: string; known: boolean };

/** The network first: one that is refused opens no window of an address. */
function takeQuota(services: Services, { address_key, network, known }: Attempt): TakenQuota[] {
  const taken: TakenQuota[] = [];
  const owner = sourceOwner({ network });
  const tryTake = (throttle: Throttle, subject: string) => {
    const refusal = services.throttles.tryTake(throttle, subject, owner);
    if (!refusal) taken.push([throttle, subject]);
    return refusal;
  };
  const ofNetwork = [ATTEMPTS_PER_NETWORK, PER_NETWORK]
    .flatMap((throttle) => networkThrottles(throttle, network))
    .map(([throttle, name]): TakenQuota => [throttle, throttleKey(services, name)]);
  const pair = `${address_key} ${throttleKey(services, network)}`;
  let refusal: Failure | undefined;
  for (const [throttle, subject] of [...ofNetwork, [ATTEMPTS_PER_PAIR, pair] as const, [PER_PAIR, pair] as const])
    refusal ??= tryTake(throttle, subject);
  if (!refusal && !known && tryTake(PER_ADDRESS, address_key)) refusal = tryTake(PER_ADDRESS_SLOW, address_key);
  if (!refusal) return taken;
  for (const [throttle, subject] of taken) services.throttles.refund(throttle, subject);
  throw refusal;
}

/** Checks a password under the throttle; throws unless it is right. */
export async function checkPasswordThrottled(
  services: Services,
  subject: {
    email_key: string;
    phc: string | null;
    password: string;
    from: RequestSource | undefined;
    /** Makes even the right password count and look like a wrong one; called when it was right. */
    refuse?: (() => void) | undefined;
  },
  wrong: "invalid_credentials" | "wrong_current_password",
): Promise<LoginAttempt> {
  const { email_key, from } = subject;
  const subjectFields = { address: throttleKey(services, email_key).slice(0, 12) }; // groups attempts by address without revealing it
  const attempt = await startLoginAttempt(services, email_key, from).catch((error: unknown) => {
    warnOfAttempt(services, "login throttled", subjectFields, from);
    throw error;
  });
  let right: boolean;
  try {
    right = await services.passwords.verify(attempt.caller, subject.phc, subject.password);
  } catch (error) {
    attempt.refund();
    throw error;
  }
  if (right) subject.refuse?.();
  if (!right || subject.refuse) {
    await attempt.failed();
    warnOfAttempt(services, "login failed", subjectFields, from);
    throw fail(wrong);
  }
  attempt.passed();
  return attempt;
}
