// The context that a handler receives for a verified key, and the verdicts of `verify`. Field names are public API.

import type { Env } from "../kernel/credentials.ts";
import type { ScopeSet } from "../kernel/policy/policy.ts";
import type { RateLimitState } from "../kernel/ratelimit/headers.ts";
import type { DenialName, VerifyDenial } from "./denials.ts";
import { denials } from "./denials.ts";

export type Context<Resources = unknown> = {
  /** Null when the key was admitted without a policy. */
  readonly keyId: string | null;
  readonly workspaceId: string | null;
  readonly projectId: string;
  /** Null when the key was admitted without a policy. */
  readonly tenantId: string | null;
  readonly env: Env;
  readonly scopes: ScopeSet;
  readonly displayPrefix: string;
  /** Milliseconds since 1970, or null for never. */
  readonly expiresAt: number | null;
  /** Decided on a stale policy, on no policy, or without reachable counters. */
  readonly degraded: boolean;
  /** False when the key was admitted without a policy. */
  readonly verified: boolean;
  /** Null when no counter was read: unreachable, `limits: "off"`, or `verify` alone. Empty for a key without limits. */
  readonly rateLimit: readonly RateLimitState[] | null;
  /** The vendor's own handles for the key's environment. */
  readonly resources: Resources;
};

/** The part of a context that is reported. */
export type Subject = Pick<Context, "keyId" | "tenantId" | "env" | "displayPrefix">;

export type Denied = {
  readonly ok: false;
  readonly code: VerifyDenial;
  readonly status: number;
  readonly message: string;
  /** The required scopes that the key lacks. */
  readonly missing?: readonly string[];
};

export type Verdict<Resources = unknown> = { readonly ok: true; readonly context: Context<Resources> } | Denied;

/** One frozen object per reason: a flood of invalid keys allocates nothing. */
export const DENIED: { readonly [Name in VerifyDenial]: Denied } = {
  missing_key: denied("missing_key"),
  invalid_key: denied("invalid_key"),
  expired_key: denied("expired_key"),
  tenant_suspended: denied("tenant_suspended"),
  key_disabled: denied("key_disabled"),
  ip_not_allowed: denied("ip_not_allowed"),
  insufficient_scope: denied("insufficient_scope"),
  unavailable: denied("unavailable"),
};

function denied(code: DenialName & VerifyDenial): Denied {
  const [status, , message] = denials[code];
  return Object.freeze({ ok: false as const, code, status, message });
}
