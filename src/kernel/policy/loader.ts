// From the feed's JSON to a Policy. Nothing that arrives is believed: a wrong type, project, environment or version, a
// key twice, a cursor twice or paging without end is a PolicyError, and what was held before stays as it was.
// A snapshot counts only when its last page is in; a delta is checked whole before its first change is made.

import type { Env } from "../credentials.ts";
import { EXPIRY, KEY_ID, KeyTable, PROFILE, ROW, TENANT } from "./key-table.ts";
import { RULE_ID, type RateLimit } from "../ratelimit/rule.ts";
import { Policy, profileKey } from "./policy.ts";
import { ProfileCache } from "./profile-cache.ts";
import { parseTimestamp } from "../timestamps.ts";
import { digestToWords, uuidToWords } from "../crypto/word-codec.ts";

/** What the feed sent cannot be used. The message says what was wrong and never repeats a value. */
export class PolicyError extends Error {
  override name = "PolicyError";
}

export type FeedExpectation = { projectId: string; env: Env | null; maxKeys: number };

const SCOPES_MAX = 1024;
const RULES_MAX = 64;
const CURSOR_MAX = 512;

/** Where a timestamp of ours has which separator. */
const FIXED = [4, 7, 10, 13, 16, 19, 23].map((at) => [at, "2026-11-14T00:00:00.000Z".charCodeAt(at)] as const);

type Json = Record<string, unknown>;

const row = new Int32Array(ROW);
const rowTimes = new Float64Array(row.buffer);
const tenantId = new Int32Array(4);

/** The pages of one snapshot on their way to becoming a policy. */
export class SnapshotLoader {
  readonly #want: FeedExpectation;
  readonly #cursors = new Set<string>();
  #policy: Policy | null = null;
  #rows = new Int32Array(0);
  #times = new Float64Array(0);
  #count = 0;
  #deleted = false;
  #complete = false;
  readonly #recent = new ProfileCache();

  constructor(want: FeedExpectation) {
    this.#want = want;
  }

  /** Takes a page and answers the cursor of the next one, or null after the last. */
  add(answer: unknown): string | null {
    if (this.#complete) throw new PolicyError("A page came after the last one.");
    const head = readHead(answer, "policy_snapshot", this.#want);
    const { keys, next_cursor } = head.body;
    if (!Array.isArray(keys)) throw new PolicyError("A snapshot page has no keys.");
    this.#policy ??= new Policy(head.workspaceId, this.#want.projectId, this.#want.env, head.version);
    const policy = this.#policy;
    if (policy.version !== head.version || policy.workspaceId !== head.workspaceId) {
      throw new PolicyError("Two pages of one snapshot disagree.");
    }
    this.#deleted ||= head.deleted;
    if (this.#count + keys.length > this.#want.maxKeys) throw new PolicyError("The snapshot has too many keys.");
    this.#reserve(this.#count + keys.length);
    for (const entry of keys) this.#read(policy, entry, this.#count++ * ROW);
    return this.#next(next_cursor, keys.length);
  }

  /** The policy, once every page is in. */
  finish(): Policy {
    const policy = this.#policy;
    if (!policy || !this.#complete) throw new PolicyError("The snapshot is not complete.");
    if (this.#deleted) return new Policy(policy.workspaceId, policy.projectId, policy.env, policy.version);
    // The rows waited until their number was known: a table that grows as they come costs three times as much.
    policy.keys = new KeyTable(this.#count);
    for (let at = 0; at < this.#count * ROW; at += ROW) {
      if (policy.keys.put(this.#rows, at)) throw new PolicyError("A snapshot names one key twice.");
    }
    return policy;
  }

  /** One block that doubles, not one a page: the system takes a large block back, small ones it keeps. */
  #reserve(keys: number): void {
    if (keys * ROW <= this.#rows.length) return;
    const larger = new Int32Array(Math.max(keys, this.#count * 2) * ROW);
    larger.set(this.#rows.subarray(0, this.#count * ROW));
    this.#rows = larger;
    this.#times = new Float64Array(larger.buffer);
  }

  #read(policy: Policy, entry: unknown, at: number): void {
    const raw = readRow(entry, policy.env, this.#rows, this.#times, at);
    const known = this.#recent.find(raw);
    if (known) policy.profiles.retain(known);
    this.#rows[at + PROFILE] = known || this.#recent.add(raw, takeProfile(policy, raw));
    this.#rows[at + TENANT] = policy.tenants.acquire(tenantId, 0);
  }

  #next(cursor: unknown, keys: number): string | null {
    if (cursor === null) {
      this.#complete = true;
      return null;
    }
    if (typeof cursor !== "string" || cursor === "" || cursor.length > CURSOR_MAX) {
      throw new PolicyError("A cursor has the wrong form.");
    }
    // A page without keys brings the end no nearer, and a cursor seen before never ends.
    if (keys === 0 || this.#cursors.has(cursor)) throw new PolicyError("The snapshot's paging does not advance.");
    this.#cursors.add(cursor);
    return cursor;
  }
}

/** Applies a delta asked for with `since`; false when it brought nothing. All of it is checked before any is applied. */
export function applyDelta(policy: Policy, delta: unknown, want: FeedExpectation): boolean {
  const head = readHead(delta, "policy_delta", want);
  const { since, changes } = head.body;
  if (!Array.isArray(changes)) throw new PolicyError("A delta has no changes.");
  if (since !== policy.version || head.workspaceId !== policy.workspaceId) {
    throw new PolicyError("The delta does not continue this policy.");
  }
  if (head.version < policy.version) throw new PolicyError("The delta goes back in time.");
  if (head.version === policy.version && changes.length > 0) throw new PolicyError("One version, two contents.");
  if (policy.keys.count + changes.length > want.maxKeys) throw new PolicyError("The policy has too many keys.");
  for (const change of changes) checkChange(change, policy.env);
  for (const change of changes as Json[]) applyChange(policy, change);
  if (head.deleted) policy.keys = new Policy(policy.workspaceId, policy.projectId, null, 0).keys;
  const moved = head.version !== policy.version;
  policy.version = head.version;
  return moved;
}

function checkChange(change: unknown, env: Env | null): void {
  const raw = readRow(change, env, row, rowTimes, 0);
  if (raw["change"] === "remove") return;
  if (raw["change"] !== "upsert") throw new PolicyError("A change of an unknown kind.");
  readScopes(raw["scopes"]);
  readRules(raw["rate_limits"]);
}

function applyChange(policy: Policy, change: Json): void {
  readRow(change, policy.env, row, rowTimes, 0);
  const at = policy.keys.find(row);
  if (at >= 0) {
    policy.profiles.release(policy.keys.words[at + PROFILE] as number);
    policy.tenants.release(policy.keys.words[at + TENANT] as number);
  }
  if (change["change"] === "remove") {
    if (at >= 0) policy.keys.remove(at);
    return;
  }
  row[PROFILE] = takeProfile(policy, change);
  row[TENANT] = policy.tenants.acquire(tenantId, 0);
  policy.keys.put(row);
}

function readHead(answer: unknown, object: string, want: FeedExpectation) {
  const body = record(answer);
  const { workspace_id, version } = body;
  if (body["object"] !== object) throw new PolicyError("An answer of another kind.");
  if (body["project_id"] !== want.projectId) throw new PolicyError("An answer about another project.");
  if (body["env"] !== want.env) throw new PolicyError("An answer about another environment.");
  if (typeof workspace_id !== "string" || !uuidToWords(workspace_id, row, 0)) throw new PolicyError("No workspace.");
  if (typeof version !== "number" || !Number.isSafeInteger(version) || version < 0)
    throw new PolicyError("No version.");
  if (typeof body["project_deleted"] !== "boolean") throw new PolicyError("Deleted or not is not said.");
  return { body, workspaceId: workspace_id, version, deleted: body["project_deleted"] };
}

/** Digest, key id and expiry into a row, the tenant beside it; the interned columns are the caller's. */
function readRow(entry: unknown, env: Env | null, into: Int32Array, times: Float64Array, at: number): Json {
  const raw = record(entry);
  if (!digestToWords(raw["lookup_hash"], into, at)) throw new PolicyError("A key without its hash.");
  if (!uuidToWords(raw["key_id"], into, at + KEY_ID)) throw new PolicyError("A key without its id.");
  if (!uuidToWords(raw["tenant_id"], tenantId, 0)) throw new PolicyError("A key without its tenant.");
  if (raw["env"] !== (env ?? raw["env"]) || (raw["env"] !== "live" && raw["env"] !== "test")) {
    throw new PolicyError("A key of another environment.");
  }
  times[(at + EXPIRY) >> 1] = raw["change"] === "remove" ? 0 : readExpiry(raw["expires_at"]);
  return raw;
}

function readExpiry(text: unknown): number {
  if (text === null) return Number.POSITIVE_INFINITY;
  const ms = typeof text === "string" ? (writtenByUs(text) ?? parseTimestamp(text)) : null;
  if (ms === null) throw new PolicyError("An expiry that is no timestamp.");
  return ms;
}

/** The one form that Keyrack writes, `2026-11-14T00:00:00.000Z`, in a fifth of the time; null asks the whole reader. */
function writtenByUs(text: string): number | null {
  if (text.length !== 24 || !FIXED.every(([at, code]) => text.charCodeAt(at) === code)) return null;
  const year = 100 * two(text, 0) + two(text, 2);
  const month = two(text, 5);
  const day = two(text, 8);
  const hour = two(text, 11);
  const minute = two(text, 14);
  const second = two(text, 17);
  const ms = Date.UTC(year, month - 1, day, hour, minute, second, 10 * two(text, 20) + (two(text, 21) % 10));
  const inRange = year >= 1970 && month >= 1 && month <= 12 && day >= 1 && day <= 28;
  return inRange && hour < 24 && minute < 60 && second < 60 && ms >= 0 ? ms : null;
}

function two(text: string, at: number): number {
  const tens = text.charCodeAt(at) - 48;
  const ones = text.charCodeAt(at + 1) - 48;
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? 10 * tens + ones : Number.NaN;
}

function takeProfile(policy: Policy, raw: Json): number {
  const key = profileKey(raw["env"] === "test", readScopes(raw["scopes"]), readRules(raw["rate_limits"]));
  return policy.profiles.acquire(key);
}

function readScopes(raw: unknown): string[] {
  const strings = Array.isArray(raw) && raw.length <= SCOPES_MAX && raw.every((scope) => typeof scope === "string");
  if (!strings) throw new PolicyError("Scopes that are no list of strings.");
  return raw;
}

function readRules(raw: unknown): RateLimit[] {
  if (!Array.isArray(raw) || raw.length > RULES_MAX) throw new PolicyError("Rate limits that are no list.");
  return raw.map((rule) => {
    const { id, limit, window_ms, algorithm, scope } = record(rule);
    const named = typeof id === "string" && RULE_ID.test(id);
    const counted = Number.isSafeInteger(limit) && (limit as number) > 0;
    const timed = Number.isSafeInteger(window_ms) && (window_ms as number) > 0;
    const known = (algorithm === "sliding" || algorithm === "fixed") && (scope === "key" || scope === "tenant");
    if (!named || !counted || !timed || !known) throw new PolicyError("A rate limit of the wrong form.");
    return { id, limit, window_ms, algorithm, scope } as RateLimit;
  });
}

function record(value: unknown): Json {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new PolicyError("Not an object.");
  return value as Json;
}
