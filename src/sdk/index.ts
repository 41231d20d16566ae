// Entry point of the verifier library: `import { createKeyrack } from "@keyrack/sdk"`. Each framework has an entry
// point of its own (`@keyrack/sdk/express` and so on), so that an application loads only the adapter it uses.

import { createKeyrackWith } from "./keyrack.ts";
import type { KeyrackOptions } from "./options.ts";
import type { Keyrack } from "./internals.ts";

/** Starts to fetch the project's policy. `await keyrack.ready()` before accepting requests. */
export function createKeyrack<Resources = undefined>(options: KeyrackOptions<Resources>): Keyrack<Resources> {
  return createKeyrackWith(options);
}

export type { RateLimitState } from "../kernel/ratelimit/headers.ts";
export type { RateLimit } from "../kernel/ratelimit/rule.ts";
export type { ScopeSet } from "../kernel/policy/policy.ts";
export type { Context, Denied, Verdict } from "./context.ts";
export type { LimitsMode, ProtectOptions } from "./guard.ts";
export type { RequiredScopes } from "./scopes.ts";
export type { IdempotentOptions } from "./idempotency/idempotency.ts";
export { KeyrackError } from "./keyrack.ts";
export type { FailMode, KeyrackOptions } from "./options.ts";
export type { OtelApi } from "./otel.ts";
export type { Tags } from "./telemetry/tags.ts";
export type { Keyrack, ReportedRequest, Status, VerifyOptions } from "./internals.ts";
export type { Level, Log } from "./runtime.ts";
