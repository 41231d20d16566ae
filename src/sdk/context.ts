// The context that a handler receives for a verified key, and the verdicts of `verify`. Field names are public API.

import type { Env } from "../kernel/credentials.ts";
import { VERIFY_DENIALS, type VerifyDenial } from "../kernel/denials.ts";
import type { RateLimitState } from "../kernel/ratelimit/headers.ts";
import { denials } from "./denials.ts";

/**
 * The scopes of a key. Not the class itself: the types for ES modules and those for CommonJS both declare it, and a
 * class with private fields would be two types in a program that loads both.
 */
export type ScopeSet = Iterable<string> & {
  readonly list: readonly string[];
  readonly size: number;
  has(scope: string): boolean;
  toJSON(): readonly string[];
};

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
export const DENIED = Object.fromEntries(VERIFY_DENIALS.map((code) => [code, denied(code)])) as {
  readonly [Name in VerifyDenial]: Denied;
};

function denied(code: VerifyDenial): Denied {
  const [status, , message] = denials[code];
  return Object.freeze({ ok: false as const, code, status, message });
}
