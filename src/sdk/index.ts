// Entry point of the verifier library: `import { createKeyrack } from "@keyrack/sdk"`. Each framework has an entry
// point of its own (`@keyrack/sdk/express` and so on), so that an application loads only the adapter it uses.

import { createKeyrackWith } from "./keyrack.ts";
import type { KeyrackOptions } from "./options.ts";
import type { Keyrack } from "./instance.ts";

/** Starts to fetch the project's policy. `await keyrack.ready()` before accepting requests. */
export function createKeyrack<Resources = undefined>(options: KeyrackOptions<Resources>): Keyrack<Resources> {
  return createKeyrackWith(options);
}

export type { RateLimitState } from "../kernel/ratelimit/headers.ts";
export type { RateLimit } from "../kernel/ratelimit/rule.ts";
export type { Context, Denied, ScopeSet, Verdict } from "./context.ts";
export type { LimitsMode, ProtectOptions } from "./protect-options.ts";
export type { RequiredScopes } from "./scopes.ts";
export type { IdempotentOptions } from "./idempotency/idempotency.ts";
export { KeyrackError, type KeyrackErrorCode } from "./ready.ts";
export type { FailMode, KeyrackOptions } from "./options.ts";
export type { OtelApi } from "./otel.ts";
export type { Tags } from "./telemetry/tags.ts";
export type { Keyrack, ReportedRequest, Status, VerifyOptions } from "./instance.ts";
export type { Level, Log } from "./runtime.ts";
