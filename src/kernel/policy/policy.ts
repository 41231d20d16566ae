// A project's policy in memory, and the one function that judges a key: `Decision.decide`. Deny is the default: every
// return but the last is a refusal, and "no_policy" is an outcome that the caller has to handle.
// Caution: `Decision` is reused between calls; read it before anything awaits.

import { BoundedMap } from "../bounded-map.ts";
import { digestApiKey, type KeyFormats, NOT_A_KEY, OWN_FORMATS, TEST_KEY } from "../crypto/key-digest.ts";
import { DIGEST } from "../crypto/sha256-block.ts";
import { Interner } from "./interner.ts";
import type { Env } from "../credentials.ts";
import { EXPIRY, KeyTable, PROFILE } from "./key-table.ts";
import { AddressList } from "../network/address-list.ts";
import type { RateLimit } from "../ratelimit/rule.ts";
import { TenantTable } from "./tenant-table.ts";

const SHORT = 8;

/** A key's scopes. Immutable, because keys with the same scopes share one object. */
class ScopeSet implements Iterable<string> {
  readonly list: readonly string[];
  readonly #all: ReadonlySet<string>;

  constructor(scopes: Iterable<string>) {
    this.list = Object.freeze(Array.from(scopes, internalize));
    this.#all = new Set(this.list);
    Object.freeze(this);
  }

  has(scope: string): boolean {
    // Scanning a short list is faster than hashing. bench: verify/floor-1e5
    if (this.list.length > SHORT) return this.#all.has(scope);
    for (let i = 0; i < this.list.length; i++) if (this.list[i] === scope) return true;
    return false;
  }

  get size(): number {
    return this.#all.size;
  }

  [Symbol.iterator](): Iterator<string> {
    return this.list[Symbol.iterator]();
  }

  toJSON(): readonly string[] {
    return this.list;
  }
}

/** V8's internalized copy of a string: equals a literal by address. bench: verify/floor-1e5 */
function internalize(text: string): string {
  return Object.keys({ [text]: 0 })[0] ?? text;
}

export const NO_SCOPES = new ScopeSet([]);
const NO_RULES: readonly RateLimit[] = Object.freeze([]);
const NO_PROFILE: Profile = Object.freeze({
  test: false,
  scopes: NO_SCOPES,
  rules: NO_RULES,
  disabled: null,
  addresses: null,
  isEnforced: false,
  metered: false,
});

export class Policy {
  readonly workspaceId: string;
  readonly projectId: string;
  /** The one environment that it covers, or null for both. */
  readonly env: Env | null;
  version: number;
  /** The capabilities that were announced when it was fetched, joined by commas. */
  caps = "";
  /** The tag of the delta that made it. It says whether the version is held only in part; null after a snapshot. */
  tag: string | null = null;
  /** The prefixes that its keys have. */
  formats = OWN_FORMATS;
  keys = new KeyTable();
  readonly profiles = new Interner<Profile>(parseProfile);
  readonly tenants = new TenantTable();

  constructor(workspaceId: string, projectId: string, env: Env | null, version: number) {
    this.workspaceId = workspaceId;
    this.projectId = projectId;
    this.env = env;
    this.version = version;
  }
}

/** The attributes that many keys have in common. Frozen and shared between them. */
type Profile = {
  readonly test: boolean;
  readonly scopes: ScopeSet;
  readonly rules: readonly RateLimit[];
  readonly disabled: Disabled;
  /** Where the key may be used from; null: anywhere. */
  readonly addresses: AddressList | null;
  /** Whether other addresses are refused, and not only reported. */
  readonly isEnforced: boolean;
  /** Whether a quota applies, so that requests must be charged to it. */
  readonly metered: boolean;
};
type Disabled = "key" | "tenant" | null;

/** The restrictions of a key. Each is absent if it does not apply. `cidrs` are joined by commas. */
export type Restrictions = { disabled?: "key" | "tenant"; metered?: true; cidrs?: string; report?: true };
const RESTRICTIONS = ["disabled", "metered", "cidrs", "report"];

/**
 * The string under which a profile is interned: every field, in a fixed order. Restrictions are last, if there are any.
 */
export function profileKey(
  test: boolean,
  scopes: readonly string[],
  rules: readonly RateLimit[],
  restrictions: Restrictions | null,
): string {
  const rows = rules.map((rule) => [rule.id, rule.limit, rule.window_ms, rule.algorithm, rule.scope]);
  return JSON.stringify(restrictions ? [test, scopes, rows, restrictions] : [test, scopes, rows]);
}

type RuleRow = [string, number, number, RateLimit["algorithm"], RateLimit["scope"]];

/** Throws for a restriction that is not known: a cache file may come from a later library. */
function parseProfile(key: string): Profile {
  const [test, scopes, rows, restrictions = {}] = JSON.parse(key) as [boolean, string[], RuleRow[], Restrictions?];
  for (const name of Object.keys(restrictions))
    if (!RESTRICTIONS.includes(name)) throw new TypeError("A profile has an unknown restriction.");
  const { disabled = null, metered = false, cidrs, report } = restrictions;
  const addresses = cidrs === undefined ? null : new AddressList(cidrs.split(","));
  const granted = grants(scopes, rows);
  const isEnforced = report !== true;
  return Object.freeze({
    test,
    scopes: granted.scopes,
    rules: granted.rules,
    disabled,
    metered,
    addresses,
    isEnforced,
  });
}

type Grants = Pick<Profile, "scopes" | "rules">;
const GRANTS_MAX = 1000;
const knownGrants = new BoundedMap<string, Grants>({ max: GRANTS_MAX, evictAtOnce: GRANTS_MAX });

/** Scopes and rules, shared by profiles that differ in their restrictions. bench: verify/address-list-memory */
function grants(scopes: readonly string[], rows: readonly RuleRow[]): Grants {
  const key = JSON.stringify([scopes, rows]);
  const known = knownGrants.get(key);
  if (known) return known;
  const rules = rows.map(([id, limit, window_ms, algorithm, scope]) =>
    Object.freeze({ id, limit, window_ms, algorithm, scope }),
  );
  const made = {
    scopes: scopes.length === 0 ? NO_SCOPES : new ScopeSet(scopes),
    rules: rules.length === 0 ? NO_RULES : Object.freeze(rules),
  };
  knownGrants.set(key, made);
  return made;
}

/** Refusals of a key that the policy contains but does not admit. */
type Refusal = "expired" | "tenant_suspended" | "key_disabled" | "ip_not_allowed" | "insufficient_scope";
export type Outcome = "valid" | "malformed" | "other_env" | "no_policy" | "unknown" | Refusal;

/** The client's address, or how to find it: only a key with a list of networks needs it. */
export type AddressSource = string | null | (() => string | null);

/** Judges keys, and holds what it found besides the outcome. No object is allocated for a request. */
export class Decision {
  test = false;
  /** The row's offset in the policy's table; only after `valid` and a `Refusal`. */
  row = -1;
  /** Milliseconds since 1970, or Infinity. */
  expiry = Number.POSITIVE_INFINITY;
  profile: Profile = NO_PROFILE;
  missing: readonly string[] = [];
  /** The key has a list of networks, and the client's address is in none of them or not known. */
  outside = false;
  /** The client's address; only if `outside`. */
  address: string | null = null;
  readonly #only: Env | null;
  readonly #now: () => number;

  /** `only`: the environment whose keys are admitted; null: either. */
  constructor(only: Env | null, now: () => number) {
    this.#only = only;
    this.#now = now;
  }

  get env(): Env {
    return this.test ? "test" : "live";
  }

  /**
   * Judges the key in `text` from `offset` to its end. `formats` are the policy's, or what is known of them without a
   * policy. Reads the clock only for a key that expires: it costs as much as the lookup. bench: verify/floor-1e5
   */
  decide(
    policy: Policy | null,
    formats: KeyFormats,
    text: string,
    offset: number,
    required: readonly string[],
    address: AddressSource = null,
  ): Outcome {
    this.outside = false;
    const kind = digestApiKey(text, offset, formats);
    if (kind === NOT_A_KEY) return "malformed";
    const test = kind === TEST_KEY;
    this.test = test;
    if (this.#only !== null && (this.#only === "test") !== test) return "other_env";
    if (policy === null) return "no_policy";
    const { words, times } = policy.keys;
    const at = policy.keys.find(DIGEST);
    if (at < 0) return "unknown";
    const profile = policy.profiles.value(words[at + PROFILE] as number);
    // The hash covers the environment, so a row that contradicts it comes from a broken feed.
    if (profile.test !== test) return "unknown";
    this.row = at;
    this.expiry = times[(at + EXPIRY) >> 1] as number;
    this.profile = profile;
    if (this.expiry !== Number.POSITIVE_INFINITY && !(this.#now() < this.expiry)) return "expired";
    if (profile.disabled !== null) return profile.disabled === "tenant" ? "tenant_suspended" : "key_disabled";
    if (profile.addresses !== null && !this.#mayUse(profile, address)) return "ip_not_allowed";
    for (let i = 0; i < required.length; i++)
      if (!profile.scopes.has(required[i] as string)) return this.#denyForScopes(required);
    return "valid";
  }

  #mayUse({ addresses, isEnforced }: Profile, address: AddressSource): boolean {
    const from: unknown = typeof address === "function" ? address() : address;
    this.address = typeof from === "string" ? from : null;
    this.outside = this.address === null || addresses?.includes(this.address) !== true;
    return !this.outside || !isEnforced;
  }

  #denyForScopes(required: readonly string[]): Outcome {
    this.missing = required.filter((scope) => !this.profile.scopes.has(scope));
    return "insufficient_scope";
  }
}
