// Builds a Policy from the feed's JSON. Input is not trusted: a wrong type, project, environment or version, a repeated
// key or cursor, or endless paging throws PolicyError and leaves the current policy unchanged. A snapshot takes effect
// only when its last page is loaded; a delta is validated completely before its first change is applied.

import type { Env } from "../credentials.ts";
import { KeyFormats, OWN_FORMATS } from "../crypto/key-digest.ts";
import { PREFIX_FORM } from "../key-prefixes.ts";
import { EXPIRY, KEY_ID, KeyTable, PROFILE, ROW, TENANT } from "./key-table.ts";
import { RULE_ID, type RateLimit } from "../ratelimit/rule.ts";
import { CIDRS_MAX, cidrProblems, IP_MODES, type IpMode } from "../network/cidr.ts";
import { Policy, profileKey, type Restrictions } from "./policy.ts";
import { ProfileCache } from "./profile-cache.ts";
import { parseTimestamp, timeOfDay, twoDigits } from "../timestamps.ts";
import { digestToWords, uuidToWords } from "../crypto/word-codec.ts";

/** An unusable feed response. The message names the problem and never repeats a value. */
export class PolicyError extends Error {
  override name = "PolicyError";
}

export type FeedExpectation = { projectId: string; env: Env | null; maxKeys: number };

const SCOPES_MAX = 1024;
const RULES_MAX = 64;
const CURSOR_MAX = 512;
const PREFIXES_MAX = 64;

type Json = Record<string, unknown>;

const row = new Int32Array(ROW);
const rowTimes = new Float64Array(row.buffer);
const tenantId = new Int32Array(4);

/** Collects the pages of one snapshot into a policy. */
export class SnapshotLoader {
  readonly #expected: FeedExpectation;
  readonly #cursors = new Set<string>();
  #policy: Policy | null = null;
  #rows = new Int32Array(0);
  #times = new Float64Array(0);
  #count = 0;
  #deleted = false;
  #complete = false;
  readonly #profileCache = new ProfileCache();

  constructor(expected: FeedExpectation) {
    this.#expected = expected;
  }

  /** Adds a page; returns the cursor of the next one, or null after the last. */
  add(response: unknown): string | null {
    if (this.#complete) throw new PolicyError("A page followed the last one.");
    const head = readHead(response, "policy_snapshot", this.#expected);
    const { keys, next_cursor } = head.body;
    if (!Array.isArray(keys)) throw new PolicyError("A snapshot page has no keys.");
    this.#policy ??= new Policy(head.workspaceId, this.#expected.projectId, this.#expected.env, head.version);
    const policy = this.#policy;
    if (policy.version !== head.version || policy.workspaceId !== head.workspaceId) {
      throw new PolicyError("The pages of a snapshot differ in version or workspace.");
    }
    policy.formats = head.formats; // of the newest page: prefixes only become more
    this.#deleted ||= head.deleted;
    if (this.#count + keys.length > this.#expected.maxKeys) throw new PolicyError("The snapshot has too many keys.");
    this.#reserve(this.#count + keys.length);
    for (const entry of keys) this.#read(policy, entry, this.#count++ * ROW);
    return this.#next(next_cursor, keys.length);
  }

  /** The policy, once every page is loaded. */
  finish(): Policy {
    const policy = this.#policy;
    if (!policy || !this.#complete) throw new PolicyError("The snapshot is not complete.");
    if (this.#deleted) return new Policy(policy.workspaceId, policy.projectId, policy.env, policy.version);
    // Inserted only once their number is known: resizing the table as pages arrive costs three times as much.
    policy.keys = new KeyTable(this.#count);
    for (let at = 0; at < this.#count * ROW; at += ROW) {
      if (policy.keys.put(this.#rows, at)) throw new PolicyError("The snapshot contains a key twice.");
    }
    return policy;
  }

  /** One buffer that doubles, not one per page: the allocator returns large blocks to the system, not small ones. */
  #reserve(keys: number): void {
    if (keys * ROW <= this.#rows.length) return;
    const larger = new Int32Array(Math.max(keys, this.#count * 2) * ROW);
    larger.set(this.#rows.subarray(0, this.#count * ROW));
    this.#rows = larger;
    this.#times = new Float64Array(larger.buffer);
  }

  #read(policy: Policy, entry: unknown, at: number): void {
    const raw = readRow(entry, policy.env, this.#rows, this.#times, at);
    const known = this.#profileCache.find(raw);
    if (known) policy.profiles.retain(known);
    this.#rows[at + PROFILE] = known || this.#profileCache.add(raw, acquireProfile(policy, raw));
    this.#rows[at + TENANT] = policy.tenants.acquire(tenantId, 0);
  }

  #next(cursor: unknown, keys: number): string | null {
    if (cursor === null) {
      this.#complete = true;
      return null;
    }
    if (typeof cursor !== "string" || cursor === "" || cursor.length > CURSOR_MAX) {
      throw new PolicyError("The cursor is malformed.");
    }
    // A page without keys makes no progress, and a repeated cursor would loop forever.
    if (keys === 0 || this.#cursors.has(cursor)) throw new PolicyError("The snapshot's paging does not advance.");
    this.#cursors.add(cursor);
    return cursor;
  }
}

/** Applies the delta since the policy's version; false when it changes nothing. Validates all of it first. */
export function applyDelta(policy: Policy, delta: unknown, expected: FeedExpectation): boolean {
  const head = readHead(delta, "policy_delta", expected);
  const { since, changes } = head.body;
  if (!Array.isArray(changes)) throw new PolicyError("A delta has no changes.");
  if (since !== policy.version || head.workspaceId !== policy.workspaceId) {
    throw new PolicyError("The delta does not continue this policy.");
  }
  if (head.version < policy.version) throw new PolicyError("The delta has an older version.");
  if (head.version === policy.version && changes.length > 0)
    throw new PolicyError("The delta changes keys without a new version.");
  let added = 0;
  for (const change of changes) if (checkChange(change, policy.env) && policy.keys.find(row) < 0) added++;
  // A policy that is full still takes what removes or changes its keys.
  if (added > 0 && policy.keys.count + added > expected.maxKeys) throw new PolicyError("The policy has too many keys.");
  for (const change of changes as Json[]) applyChange(policy, change);
  if (head.deleted) policy.keys = new Policy(policy.workspaceId, policy.projectId, null, 0).keys;
  const moved = head.version !== policy.version;
  policy.version = head.version;
  policy.formats = head.formats;
  return moved;
}

/** Whether it is an upsert, whose digest is then in `row`. */
function checkChange(change: unknown, env: Env | null): boolean {
  const raw = readRow(change, env, row, rowTimes, 0);
  if (raw["change"] === "remove") return false;
  if (raw["change"] !== "upsert") throw new PolicyError("A change has an unknown kind.");
  readScopes(raw["scopes"]);
  readRules(raw["rate_limits"]);
  readRestrictions(raw);
  return true;
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
  row[PROFILE] = acquireProfile(policy, change);
  row[TENANT] = policy.tenants.acquire(tenantId, 0);
  policy.keys.put(row);
}

function readHead(response: unknown, object: string, expected: FeedExpectation) {
  const body = asObject(response);
  const { workspace_id, version } = body;
  if (body["object"] !== object) throw new PolicyError("The response has the wrong object type.");
  if (body["project_id"] !== expected.projectId) throw new PolicyError("The response is for another project.");
  if (body["env"] !== expected.env) throw new PolicyError("The response is for another environment.");
  if (typeof workspace_id !== "string" || !uuidToWords(workspace_id, row, 0))
    throw new PolicyError("The response has no workspace id.");
  if (typeof version !== "number" || !Number.isSafeInteger(version) || version < 0)
    throw new PolicyError("The response has no version.");
  if (typeof body["project_deleted"] !== "boolean") throw new PolicyError("The response has no project_deleted.");
  const formats = readFormats(body["key_prefixes"]);
  return { body, workspaceId: workspace_id, version, deleted: body["project_deleted"], formats };
}

/** The last list that was read, as it seldom changes. */
let lastFormats = OWN_FORMATS;

export function readFormats(raw: unknown): KeyFormats {
  if (raw === undefined) return OWN_FORMATS;
  const isList = Array.isArray(raw) && raw.length > 0 && raw.length <= PREFIXES_MAX;
  if (!isList || !raw.every((prefix) => typeof prefix === "string" && PREFIX_FORM.test(prefix)))
    throw new PolicyError("The key prefixes are malformed.");
  const prefixes = raw as string[];
  if (prefixes.join() !== lastFormats.prefixes.join()) lastFormats = new KeyFormats(prefixes);
  return lastFormats;
}

/** Reads digest, key id and expiry into a row and the tenant into `tenantId`; the caller fills the interned columns. */
function readRow(entry: unknown, env: Env | null, into: Int32Array, times: Float64Array, at: number): Json {
  const raw = asObject(entry);
  if (!digestToWords(raw["lookup_hash"], into, at)) throw new PolicyError("A key has no lookup hash.");
  if (!uuidToWords(raw["key_id"], into, at + KEY_ID)) throw new PolicyError("A key has no id.");
  if (!uuidToWords(raw["tenant_id"], tenantId, 0)) throw new PolicyError("A key has no tenant id.");
  if (raw["env"] !== (env ?? raw["env"]) || (raw["env"] !== "live" && raw["env"] !== "test")) {
    throw new PolicyError("A key belongs to another environment.");
  }
  times[(at + EXPIRY) >> 1] = raw["change"] === "remove" ? 0 : readExpiry(raw["expires_at"]);
  return raw;
}

function readExpiry(text: unknown): number {
  if (text === null) return Number.POSITIVE_INFINITY;
  const ms = typeof text === "string" ? (parseOwnFormat(text) ?? parseTimestamp(text)) : null;
  if (ms === null) throw new PolicyError("An expiry is not a timestamp.");
  return ms;
}

/** Fast path of parseTimestamp for the form that Keyrack writes; null for any other. bench: verify/load */
function parseOwnFormat(text: string): number | null {
  if (text.length !== 24 || text.charCodeAt(4) !== 45 || text.charCodeAt(7) !== 45) return null;
  const time = text.charCodeAt(10) === 84 && text.charCodeAt(23) === 90 ? timeOfDay(text) : -1;
  const year = 100 * twoDigits(text, 0) + twoDigits(text, 2);
  const month = twoDigits(text, 5);
  const day = twoDigits(text, 8);
  const inRange = year >= 1970 && month >= 1 && month <= 12 && day >= 1 && day <= 28;
  return inRange && time >= 0 ? Date.UTC(year, month - 1, day) + time : null;
}

function acquireProfile(policy: Policy, raw: Json): number {
  const rules = readRules(raw["rate_limits"]);
  const key = profileKey(raw["env"] === "test", readScopes(raw["scopes"]), rules, readRestrictions(raw));
  return policy.profiles.acquire(key);
}

/** Null if the key has none, as most keys. */
function readRestrictions({ disabled, metered, allowed_cidrs: cidrs, ip_mode }: Json): Restrictions | null {
  if (disabled === undefined && metered === undefined && cidrs === undefined) return null;
  if (metered !== undefined && metered !== true) throw new PolicyError("A key is metered in an unknown way.");
  if (disabled !== undefined && disabled !== "key" && disabled !== "tenant")
    throw new PolicyError("A key is disabled in an unknown way.");
  const restrictions: Restrictions = { ...(disabled && { disabled }), ...(metered && { metered }) };
  if (cidrs === undefined) return restrictions;
  const isList = Array.isArray(cidrs) && cidrs.length > 0 && cidrs.length <= CIDRS_MAX;
  if (!isList || !cidrs.every((cidr) => typeof cidr === "string") || cidrProblems(cidrs).length > 0)
    throw new PolicyError("A list of networks is malformed.");
  if (!IP_MODES.includes(ip_mode as IpMode)) throw new PolicyError("A list of networks has an unknown mode.");
  return { ...restrictions, cidrs: cidrs.join(","), ...(ip_mode === "report" && { report: true }) };
}

function readScopes(raw: unknown): string[] {
  const strings = Array.isArray(raw) && raw.length <= SCOPES_MAX && raw.every((scope) => typeof scope === "string");
  if (!strings) throw new PolicyError("Scopes are not a list of strings.");
  return raw;
}

function readRules(raw: unknown): RateLimit[] {
  if (!Array.isArray(raw) || raw.length > RULES_MAX) throw new PolicyError("Rate limits are not a list.");
  return raw.map((rule) => {
    const { id, limit, window_ms, algorithm, scope } = asObject(rule);
    const named = typeof id === "string" && RULE_ID.test(id);
    const counted = Number.isSafeInteger(limit) && (limit as number) > 0;
    const timed = Number.isSafeInteger(window_ms) && (window_ms as number) > 0;
    const known = (algorithm === "sliding" || algorithm === "fixed") && (scope === "key" || scope === "tenant");
    if (!named || !counted || !timed || !known) throw new PolicyError("A rate limit is malformed.");
    return { id, limit, window_ms, algorithm, scope } as RateLimit;
  });
}

function asObject(value: unknown): Json {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new PolicyError("A value is not an object.");
  return value as Json;
}
