// The contract of every idempotency store: scopes, claim results and bounds (docs/design/0006-idempotency-fencing.md).
// Caution: a store returns `execute` to exactly one claimant of a scope, and only once that claim is durable.
import type { Env } from "./credentials.ts";
import { DAY_MS, MINUTE_MS } from "./durations.ts";

export const LOCK_MS = 30_000;
export const BODY_BYTES_MAX = 262_144;
export const TTL_MS_MIN = MINUTE_MS;
export const TTL_MS_MAX = 7 * DAY_MS;
export const TTL_MS_DEFAULT = DAY_MS;
/** Records of an environment of a workspace, until they expire. */
export const RECORDS_MAX = 1_000_000;
/** Sealed responses, headers included, stored for an environment of a workspace. */
export const STORED_BYTES_MAX = 2 ** 30;

export type ClaimScope = {
  workspace_id: string;
  env: Env;
  scope_hash: string;
  /** Who created the workspace: claims that wait are charged to their account. */
  account_id?: string | null | undefined;
};

export type Claim = { fingerprint: string; token_hash: string; ttl_ms: number };

export type ClaimResult =
  | { state: "execute"; stolen: boolean }
  | { state: "replay"; status: number; body_stored: boolean; sealed: Uint8Array | null }
  | { state: "in_progress"; lease_left_ms: number }
  | { state: "mismatch" }
  | { state: "full" };

export type RecordOutcome = "ok" | "lock_lost" | "completed" | "not_found";

export type Completion = {
  token_hash: string;
  status: number;
  /** Null: restart the claim's own. */
  ttl_ms: number | null;
  /** The sealed response with its body; null when there is no body to store. */
  sealed_full: Uint8Array | null;
  /** The sealed response without its body, stored when the quota has no room for the body. */
  sealed_without_body: Uint8Array;
};

export type CompletionResult = { outcome: RecordOutcome; body_stored: boolean };

/** Stores claims. Each call is atomic; a call that cannot be decided throws, and never returns `execute`. */
export interface ClaimStore {
  claim(scope: ClaimScope, claim: Claim): Promise<ClaimResult>;
  complete(scope: ClaimScope, completion: Completion): Promise<CompletionResult>;
  release(scope: ClaimScope, token_hash: string): Promise<RecordOutcome>;
  heartbeat(scope: ClaimScope, token_hash: string): Promise<RecordOutcome>;
  close(): void;
}

const UNREPLAYABLE: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "set-cookie",
  "set-cookie2",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** Lower-case names of headers that are of one connection, and of cookies: they must not be replayed on another one. */
export function unreplayable(headers: readonly (readonly [name: string, value: string])[]): ReadonlySet<string> {
  const listed = headers
    .filter(([name]) => name.toLowerCase() === "connection")
    .flatMap(([, value]) => value.split(","));
  return listed.length === 0
    ? UNREPLAYABLE
    : new Set([...UNREPLAYABLE, ...listed.map((name) => name.trim().toLowerCase())]);
}
