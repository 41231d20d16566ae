// The object that createKeyrack returns, and how adapters access its internals. Adapters import this file instead of
// the library itself, so that each adds only a few kilobytes.

import type { TrustedProxies } from "../kernel/network/trusted-proxies.ts";
import type { Context, Denied, Verdict } from "./context.ts";
import type { Guard, ProtectOptions } from "./guard.ts";
import type { IdempotentOptions, IdempotentRoute } from "./idempotency/idempotency.ts";
import type { FailMode } from "./options.ts";
import type { Tags } from "./telemetry/tags.ts";
import type { RequiredScopes, ScopeRequirement } from "./scopes.ts";

export type VerifyOptions = {
  scopes?: RequiredScopes | undefined;
  failMode?: FailMode | undefined;
  /** The client's address. Without it, a key that is confined to networks is refused. */
  ip?: string | null | undefined;
};

export type Status = {
  /** The policy version in force, or null. */
  version: number | null;
  keys: number;
  /** Milliseconds since the control plane last confirmed the policy, or null. */
  ageMs: number | null;
  degraded: boolean;
  /** What the library enforces and the server has accepted: it withholds keys that need more. */
  caps: readonly string[];
};

/** The verdict's context, or the denial itself. */
export type ReportedRequest = {
  context?: Context | null | undefined;
  denial?: Denied | null | undefined;
  method: string;
  /** Without the query string. */
  path: string;
  route?: string | null | undefined;
  status: number;
  durationMs: number;
  tags?: Tags | undefined;
  cost?: number | undefined;
  /** The client's address and user agent, for the key's last use; `clientInfo: false` sends neither. */
  ip?: string | null | undefined;
  userAgent?: string | null | undefined;
};

export type Keyrack<Resources = unknown> = {
  /** Resolves when the first policy is loaded. Rejects when the control plane rejects the credential or project. */
  readonly ready: (options?: { timeoutMs?: number | undefined }) => Promise<void>;
  /** Synchronous, no network. */
  readonly verify: (key: unknown, options?: VerifyOptions) => Verdict<Resources>;
  /** Adds tags to the event of a request, until its response has ended. */
  readonly tag: (context: Context | null | undefined, tags: Tags) => void;
  /** Reports a request that was decided with `verify` alone; `protect` reports by itself. */
  readonly report: (request: ReportedRequest) => void;
  readonly status: () => Status;
  /** Stops the feed, returns leases and sends the last events. From the call on, every key is refused with 503. */
  readonly close: () => Promise<void>;
  readonly [INTERNALS]: Internals;
};

/** A registered symbol, because one process may load this library twice: as ESM and as CommonJS. */
export const INTERNALS: unique symbol = Symbol.for("keyrack.sdk.parts") as never;

type Internals = {
  guard<Req>(options?: ProtectOptions<Req>, anyOf?: ScopeRequirement["any"]): Guard<Req>;
  /** Throws for anything but a handler. */
  idempotent(handler: unknown, options?: IdempotentOptions): IdempotentRoute;
  readonly trustedProxies: TrustedProxies;
};

/** For adapters. */
export function internalsOf(keyrack: Keyrack): Internals {
  const internals = (keyrack as Partial<Keyrack> | null | undefined)?.[INTERNALS];
  if (!internals) throw new TypeError("keyrack: the first argument must come from createKeyrack.");
  return internals;
}
