// What a request's handler learns about its key, and the verdicts of `verify`. Field names are a contract.

import type { Env } from "../kernel/credentials.ts";
import type { ScopeSet } from "../kernel/policy/policy.ts";
import type { DenialName, VerifyDenial } from "./denials.ts";
import { denials } from "./denials.ts";

/** One counter after the request. */
export type RateLimitState = {
  readonly id: string;
  readonly limit: number;
  readonly windowMs: number;
  readonly remaining: number;
  /** Milliseconds until more quota appears. */
  readonly resetMs: number;
};

export type Context<Resources = unknown> = {
  /** Null where the key was admitted without a policy. */
  readonly keyId: string | null;
  readonly workspaceId: string | null;
  readonly projectId: string;
  /** Null where the key was admitted without a policy. */
  readonly tenantId: string | null;
  readonly env: Env;
  readonly scopes: ScopeSet;
  readonly displayPrefix: string;
  /** Milliseconds since 1970, or null for never. */
  readonly expiresAt: number | null;
  /** The decision came from an old policy, no policy, or counters that could not be reached. */
  readonly degraded: boolean;
  /** False where the key was admitted without a policy. */
  readonly verified: boolean;
  /** Null where no counter was read: unreachable, switched off, or `verify` alone. Empty for a key without limits. */
  readonly rateLimit: readonly RateLimitState[] | null;
  /** The vendor's own handles for the key's environment. */
  readonly resources: Resources;
};

/** The part of a context that a report needs. */
export type Subject = Pick<Context, "keyId" | "tenantId" | "env" | "displayPrefix">;

export type Denied = {
  readonly ok: false;
  readonly code: VerifyDenial;
  readonly status: number;
  readonly message: string;
  /** The scopes that the key lacks. */
  readonly missing?: readonly string[];
};

export type Verdict<Resources = unknown> = { readonly ok: true; readonly context: Context<Resources> } | Denied;

/** One frozen object a reason: a flood of bad keys allocates nothing. */
export const DENIED: { readonly [Name in VerifyDenial]: Denied } = {
  missing_key: denied("missing_key"),
  invalid_key: denied("invalid_key"),
  expired_key: denied("expired_key"),
  insufficient_scope: denied("insufficient_scope"),
  unavailable: denied("unavailable"),
};

function denied(code: DenialName & VerifyDenial): Denied {
  const [status, , message] = denials[code];
  return Object.freeze({ ok: false as const, code, status, message });
}
