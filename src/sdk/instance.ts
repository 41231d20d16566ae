// The object that createKeyrack returns, as its users see it. Its internals are in another file, so that the package
// has no types of them.

import type { Context, Denied, Verdict } from "./context.ts";
import type { FailMode } from "./options.ts";
import type { RequiredScopes } from "./scopes.ts";
import type { Tags } from "./telemetry/tags.ts";

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

/** With the verdict's context, or with the denial itself: without either, an admitted request without a tenant. */
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
  /** Resolves when the first policy is loaded. Rejects with a KeyrackError, whose `code` says why. */
  readonly ready: (options?: { timeoutMs?: number | undefined }) => Promise<void>;
  /** Synchronous, no network. `key` is a text; any other value is refused. Throws a TypeError for a wrong option. */
  readonly verify: (key: unknown, options?: VerifyOptions) => Verdict<Resources>;
  /** Adds tags to the event of a request, until its response has ended. */
  readonly tag: (context: Context | null | undefined, tags: Tags) => void;
  /** Reports a request that was decided with `verify` alone; `protect` reports by itself. */
  readonly report: (request: ReportedRequest) => void;
  readonly status: () => Status;
  /** Stops the feed, returns leases and sends the last events. From the call on, every key is refused with 503. */
  readonly close: () => Promise<void>;
};
