// The verifier library's front door: `import { createKeyrack } from "keyrack/sdk"`. Frameworks have their own doors
// beside it (`keyrack/sdk/express` and so on), so that nobody loads what they do not use.

import { createKeyrackWith } from "./keyrack.ts";
import type { KeyrackOptions } from "./options.ts";
import type { Keyrack } from "./internals.ts";

/** Starts to fetch the project's policy at once. `await keyrack.ready()` before taking requests. */
export function createKeyrack<Resources = undefined>(options: KeyrackOptions<Resources>): Keyrack<Resources> {
  return createKeyrackWith(options);
}

export type { RateLimit } from "../kernel/ratelimit/rule.ts";
export type { ScopeSet } from "../kernel/policy/policy.ts";
export type { Context, Denied, RateLimitState, Verdict } from "./context.ts";
export type { LimitsMode, ProtectOptions } from "./guard.ts";
export type { IdempotentOptions } from "./idempotency/idempotency.ts";
export { KeyrackError } from "./keyrack.ts";
export type { FailMode, KeyrackOptions } from "./options.ts";
export type { Keyrack, Status, VerifyOptions } from "./internals.ts";
export type { Level, Log } from "./runtime.ts";
