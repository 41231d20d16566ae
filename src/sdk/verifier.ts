// verify(): judges a key synchronously, without network. The kernel decides; this file translates its outcome to the
// public verdict. Every outcome but "valid" is a denial, except in `#failOpen`.

import type { Env } from "../kernel/credentials.ts";
import type { KeyFormats } from "../kernel/crypto/key-digest.ts";
import { KEY_ID, TENANT } from "../kernel/policy/key-table.ts";
import type { RateLimitState } from "../kernel/ratelimit/headers.ts";
import type { RateLimit } from "../kernel/ratelimit/rule.ts";
import { type AddressSource, Decision, NO_SCOPES, type Outcome, type Policy } from "../kernel/policy/policy.ts";
import { wordsToUuid } from "../kernel/crypto/word-codec.ts";
import { type Context, DENIED, type Denied, type Subject, type Verdict } from "./context.ts";
import type { PolicyState } from "./feed/policy-state.ts";
import type { FailMode, Settings } from "./options.ts";
import { type OutsideNetworks, outsideOf } from "./telemetry/network-report.ts";
import type { Log, Ports } from "./runtime.ts";
import { NO_GROUPS, type ScopeRequirement } from "./scopes.ts";

const PREFIX = { live: "kr_live_", test: "kr_test_" } as const;
const PREFIX_CHARS = PREFIX.live.length;
const SHOWN_CHARS = 6;
const NO_LIMITS: readonly RateLimitState[] = Object.freeze([]);
const NO_RULES: readonly RateLimit[] = Object.freeze([]);

/** Denials of keys that the policy contains; any other key is invalid. */
const REFUSED: { readonly [Name in Outcome]?: Denied } = {
  expired: DENIED.expired_key,
  tenant_suspended: DENIED.tenant_suspended,
  key_disabled: DENIED.key_disabled,
  ip_not_allowed: DENIED.ip_not_allowed,
  insufficient_scope: DENIED.insufficient_scope,
};

export class Verifier {
  /** The rate limits of the key that the last call admitted. Caution: read it before anything awaits. */
  rules: readonly RateLimit[] = NO_RULES;
  /** Whether a quota applies to the key that the last call admitted. */
  isMetered = false;
  /** The owner of the key that the last call rejected, if known: for the report, never for the caller. */
  rejected: Subject | null = null;
  /** Null unless the last call was from outside the key's networks. */
  outside: OutsideNetworks | null = null;
  readonly #state: PolicyState;
  readonly #settings: Settings;
  readonly #log: Log;
  readonly #logEnabled: boolean;
  readonly #resources: Record<Env, unknown>;
  readonly #decision: Decision;
  #isTypeLogged = false;
  #isAddressLogged = false;

  constructor(
    state: PolicyState,
    settings: Settings,
    ports: Ports,
    log: Log,
    logEnabled: boolean,
    resources: Record<Env, unknown>,
  ) {
    this.#state = state;
    this.#settings = settings;
    this.#decision = new Decision(settings.env, ports.now);
    this.#log = log;
    this.#logEnabled = logEnabled;
    this.#resources = resources;
  }

  /** The prefixes of keys: those of the policy, however old it is, else those of the option. */
  get formats(): KeyFormats {
    return this.#state.policy?.formats ?? this.#settings.formats;
  }

  /**
   * Judges the key in `text` from `offset` to its end. It must have all of `required`, and one of each group of
   * `anyOf`.
   */
  judge(
    text: string,
    offset: number,
    required: readonly string[],
    failMode: FailMode,
    anyOf: ScopeRequirement["any"] = NO_GROUPS,
    address: AddressSource = null,
  ): Verdict {
    const decision = this.#decision;
    const policy = this.#state.current();
    let outcome = decision.decide(policy, this.formats, text, offset, required, address);
    if (anyOf.length > 0) outcome = this.#requireOneOf(outcome, anyOf);
    this.rules = NO_RULES;
    this.isMetered = false;
    this.rejected = null;
    this.outside = decision.outside ? outsideOf(decision, outcome) : null;
    if (outcome === "valid" && policy !== null) {
      this.rules = decision.profile.rules;
      this.isMetered = decision.profile.metered;
      return { ok: true, context: this.#admitted(policy, text, offset, this.#state.degraded) };
    }
    if (this.#logEnabled) this.#logRejection(outcome, text, offset);
    if (outcome === "ip_not_allowed" && decision.address === null) this.#warnOfAddress();
    if (outcome === "no_policy") {
      if (failMode === "closed" || this.#state.isClosed) return DENIED.unavailable;
      return this.#failOpen(text, offset, address);
    }
    const denied = REFUSED[outcome];
    if (policy === null || !denied) return DENIED.invalid_key;
    this.rejected = this.#subject(policy, text, offset);
    return outcome === "insufficient_scope" ? { ...denied, missing: decision.missing } : denied;
  }

  /** For a value that is not a string. The first promise or object is logged: it is a mistake of the vendor. */
  denyWithoutText(key: unknown): Denied {
    if (key === null || key === undefined || key === "") return DENIED.missing_key;
    if (!this.#isTypeLogged) this.#log("warn", "verify was called with a key that is not a text", { type: typeof key });
    this.#isTypeLogged = true;
    return DENIED.invalid_key;
  }

  /** Scopes are judged last, so only a key that is valid so far can lack one of a group. */
  #requireOneOf(outcome: Outcome, groups: ScopeRequirement["any"]): Outcome {
    if (outcome !== "valid" && outcome !== "insufficient_scope") return outcome;
    const decision = this.#decision;
    const { scopes } = decision.profile;
    const unmet = groups.filter((group) => !group.some((scope) => scopes.has(scope)));
    if (unmet.length === 0) return outcome;
    decision.missing = [...(outcome === "valid" ? [] : decision.missing), ...unmet.flat()];
    return "insufficient_scope";
  }

  #subject(policy: Policy, text: string, offset: number): Subject {
    const { env, row } = this.#decision;
    const { words } = policy.keys;
    const tenantId = policy.tenants.text(words[row + TENANT] as number);
    return {
      keyId: wordsToUuid(words, row + KEY_ID),
      tenantId,
      env,
      displayPrefix: displayPrefix(env, text, offset, this.formats),
    };
  }

  #admitted(policy: Policy, text: string, offset: number, degraded: boolean): Context {
    const { env, row, expiry, profile } = this.#decision;
    const { words } = policy.keys;
    return {
      keyId: wordsToUuid(words, row + KEY_ID),
      workspaceId: policy.workspaceId,
      projectId: policy.projectId,
      tenantId: policy.tenants.text(words[row + TENANT] as number),
      env,
      scopes: profile.scopes,
      displayPrefix: displayPrefix(env, text, offset, this.formats),
      expiresAt: expiry === Number.POSITIVE_INFINITY ? null : expiry,
      degraded,
      verified: true,
      rateLimit: profile.rules.length === 0 && !profile.metered ? NO_LIMITS : null,
      resources: this.#resources[env],
    };
  }

  /** A policy older than maxStaleMs no longer admits keys, but still rejects those that it does not admit. */
  #failOpen(text: string, offset: number, address: AddressSource): Verdict {
    const old = this.#state.policy;
    if (old === null) return this.#unverified(text, offset);
    const outcome = this.#decision.decide(old, old.formats, text, offset, [], address);
    if (this.#decision.outside) this.outside = outsideOf(this.#decision, outcome);
    return outcome === "valid" ? this.#unverified(text, offset) : (REFUSED[outcome] ?? DENIED.invalid_key);
  }

  /** Fail-open: the key has a valid checksum, and nothing else is known about it. */
  #unverified(text: string, offset: number): Verdict {
    const { env } = this.#decision;
    const context: Context = {
      keyId: null,
      workspaceId: null,
      projectId: this.#settings.projectId,
      tenantId: null,
      env,
      scopes: NO_SCOPES,
      displayPrefix: displayPrefix(env, text, offset, this.formats),
      expiresAt: null,
      degraded: true,
      verified: false,
      rateLimit: null,
      resources: this.#resources[env],
    };
    return { ok: true, context };
  }

  /** Once: such a key may be the first in months, and its refusal is the application's mistake, not the customer's. */
  #warnOfAddress(): void {
    if (this.#isAddressLogged) return;
    this.#isAddressLogged = true;
    const advice = "set trustedProxies or getIp, or pass ip to verify";
    this.#log("warn", `a key is confined to networks, and the client's address is not known: ${advice}`, {});
  }

  /** Callers get one message for every invalid key; only the vendor's debug log has the reason. */
  #logRejection(outcome: Outcome, text: string, offset: number): void {
    const prefix = outcome === "malformed" ? null : displayPrefix(this.#decision.env, text, offset, this.formats);
    const network = outcome === "ip_not_allowed" && { network: this.outside?.network ?? null };
    this.#log("debug", "a key was rejected", { why: outcome, display_prefix: prefix, ...network });
  }
}

/** Whether the key begins with `kr_`, by character: `startsWith` is a call. bench: verify/floor-1e5 */
function isOwn(text: string, offset: number): boolean {
  return text.charCodeAt(offset) === 107 && text.charCodeAt(offset + 1) === 114 && text.charCodeAt(offset + 2) === 95;
}

/** Concatenated: a slice of 13 or more characters would keep the whole secret string alive in memory. */
function displayPrefix(env: Env, text: string, offset: number, formats: KeyFormats): string {
  if (isOwn(text, offset)) return PREFIX[env] + text.slice(offset + PREFIX_CHARS, offset + PREFIX_CHARS + SHOWN_CHARS);
  const at = offset + formats.matched.length;
  return formats.matched + text.slice(at, at + SHOWN_CHARS);
}
