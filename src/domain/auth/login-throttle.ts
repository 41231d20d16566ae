// The throttle before a password check (decision 72). Places are taken before the check and given back on success, so
// that only failures count and a burst cannot slip through while the first ones are still being hashed.
import { fail } from "../../kernel/errors.ts";
import {
  clearLoginFailures,
  countLoginFailure,
  loginFailures,
  loginNetwork,
  noteLoginNetwork,
} from "../../store/queries/logins.ts";
import type { Tx } from "../../store/engine/statement.ts";
import type { RequestSource, Services } from "../core/context.ts";
import { throttleKey, type Throttle } from "./throttle.ts";
import { record } from "../core/record.ts";

const QUARTER_MS = 15 * 60_000;
const KNOWN_NETWORK_MS = 30 * 24 * 3_600_000;
export const CONSECUTIVE_FAILURES_MAX = 100;

const PER_PAIR: Throttle = { name: "login", limit: 10, windowMs: QUARTER_MS };
const PER_ADDRESS: Throttle = { name: "login_address", limit: 20, windowMs: QUARTER_MS };
const PER_ADDRESS_SLOW: Throttle = { name: "login_address_slow", limit: 1, windowMs: 30_000 };
const PER_NETWORK: Throttle = { name: "login_network", limit: 100, windowMs: QUARTER_MS };
const CONSECUTIVE: Throttle = { name: "login_consecutive", limit: CONSECUTIVE_FAILURES_MAX, windowMs: QUARTER_MS };

/** One password check that has been let in. */
export type LoginAttempt = {
  /** The password was wrong: the places stay taken, and the run of failures grows by one. */
  failed(): Promise<void>;
  /** It was right, or never got to be checked: nothing of it counts. */
  giveBack(): void;
  /** In the transaction of a log-in that worked. */
  succeeded(tx: Tx): Promise<void>;
};

export async function startLoginAttempt(
  services: Services,
  email_key: string,
  from: RequestSource | undefined,
): Promise<LoginAttempt> {
  const address_key = throttleKey(services, email_key);
  const network_key = throttleKey(services, from?.network ?? "");
  const { read } = services.store;
  const since = services.clock.now() - KNOWN_NETWORK_MS;
  // A network this account has logged in from has a bucket of its own: nobody elsewhere can lock its people out.
  const known = (await loginNetwork.first(read, { address_key, network_key, since })) !== undefined;
  const bucket = known ? network_key : "";
  const taken = takePlaces(services, address_key, network_key, known);
  const giveBack = (): void => {
    for (const [throttle, subject] of taken) services.throttles.giveBack(throttle, subject);
  };
  const run = await loginFailures.first(read, { address_key, bucket });
  if (services.settings.throttle && (run?.consecutive ?? 0) >= CONSECUTIVE_FAILURES_MAX) {
    giveBack();
    throw services.throttles.refusal(CONSECUTIVE, undefined, "login_disabled");
  }
  return {
    giveBack,
    async failed() {
      await record(services, (tx) => countLoginFailure.run(tx, { address_key, bucket, now: services.clock.now() }));
    },
    async succeeded(tx) {
      await clearLoginFailures.run(tx, { address_key, bucket });
      await noteLoginNetwork.run(tx, { address_key, network_key, now: services.clock.now() });
    },
  };
}

type Place = readonly [Throttle, string];

function takePlaces(services: Services, address_key: string, network_key: string, known: boolean): Place[] {
  const taken: Place[] = [];
  const tryTake = (throttle: Throttle, subject: string) => {
    const refusal = services.throttles.tryTake(throttle, subject);
    if (!refusal) taken.push([throttle, subject]);
    return refusal;
  };
  let refusal = tryTake(PER_PAIR, `${address_key} ${network_key}`);
  if (!refusal && !known && tryTake(PER_ADDRESS, address_key)) refusal = tryTake(PER_ADDRESS_SLOW, address_key);
  refusal ??= tryTake(PER_NETWORK, network_key);
  if (!refusal) return taken;
  for (const [throttle, subject] of taken) services.throttles.giveBack(throttle, subject);
  throw refusal;
}

/** Checks a password under the guard; answers only when it was right. */
export async function checkPasswordThrottled(
  services: Services,
  subject: { email_key: string; phc: string | null; password: string; from: RequestSource | undefined },
  wrong: "invalid_credentials" | "wrong_current_password",
): Promise<LoginAttempt> {
  const { email_key, from } = subject;
  const who = { address: throttleKey(services, email_key).slice(0, 12), ...from }; // tells tries on one address apart, not whose
  const attempt = await startLoginAttempt(services, email_key, from).catch((error: unknown) => {
    services.log.warn("login throttled", who);
    throw error;
  });
  let right: boolean;
  try {
    right = await services.passwords.verify(subject.phc, subject.password);
  } catch (error) {
    attempt.giveBack();
    throw error;
  }
  if (!right) {
    await attempt.failed();
    services.log.warn("login failed", who);
    throw fail(wrong);
  }
  attempt.giveBack();
  return attempt;
}
