// verify(): a key's text to a verdict, synchronous, no network. The kernel decides; here an outcome becomes what the
// vendor sees. Whatever is not an outright "valid" is a denial, except the one door named fail-open.

import type { Env } from "../kernel/credentials.ts";
import { KEY_ID, TENANT } from "../kernel/policy/key-table.ts";
import type { RateLimit } from "../kernel/ratelimit/rule.ts";
import { Decision, decide, NO_SCOPES, type Outcome, type Policy } from "../kernel/policy/policy.ts";
import { wordsToUuid } from "../kernel/crypto/word-codec.ts";
import { type Context, DENIED, type RateLimitState, type Subject, type Verdict } from "./context.ts";
import type { PolicyState } from "./feed/policy-state.ts";
import type { FailMode, Settings } from "./options.ts";
import type { Log, Ports } from "./runtime.ts";

const PREFIX = { live: "kr_live_", test: "kr_test_" } as const;
const NO_LIMITS: readonly RateLimitState[] = Object.freeze([]);
const NO_RULES: readonly RateLimit[] = Object.freeze([]);

export class Verifier {
  /** The rate limits of the key that the last call admitted. Read it before anything awaits. */
  rules: readonly RateLimit[] = NO_RULES;
  /** Whose key the last call refused, where the policy knows it: for the report, never for the caller. */
  refused: Subject | null = null;
  readonly #held: PolicyState;
  readonly #settings: Settings;
  readonly #now: () => number;
  readonly #log: Log;
  readonly #logs: boolean;
  readonly #resources: Record<Env, unknown>;
  readonly #decision = new Decision();

  constructor(
    held: PolicyState,
    settings: Settings,
    ports: Ports,
    log: Log,
    logs: boolean,
    resources: Record<Env, unknown>,
  ) {
    this.#held = held;
    this.#settings = settings;
    this.#now = ports.now;
    this.#log = log;
    this.#logs = logs;
    this.#resources = resources;
  }

  /** Judges the key that stands in `text` from `offset` to its end. */
  judge(text: string, offset: number, needs: readonly string[], failMode: FailMode): Verdict {
    const decision = this.#decision;
    const policy = this.#held.current();
    const outcome = decide(decision, policy, this.#settings.env, text, offset, needs, this.#now);
    this.rules = NO_RULES;
    this.refused = null;
    if (outcome === "valid" && policy !== null) {
      this.rules = decision.profile.rules;
      return { ok: true, context: this.#admitted(policy, text, offset, this.#held.degraded) };
    }
    if (this.#logs) this.#explain(outcome, text, offset);
    if (outcome === "no_policy") return failMode === "open" ? this.#failOpen(text, offset) : DENIED.unavailable;
    if (policy === null || (outcome !== "expired" && outcome !== "insufficient_scope")) return DENIED.invalid_key;
    this.refused = this.#subject(policy, text, offset);
    if (outcome === "expired") return DENIED.expired_key;
    return { ...DENIED.insufficient_scope, missing: decision.missing };
  }

  #subject(policy: Policy, text: string, offset: number): Subject {
    const { env, row } = this.#decision;
    const { words } = policy.keys;
    const tenantId = policy.tenants.text(words[row + TENANT] as number);
    return { keyId: wordsToUuid(words, row + KEY_ID), tenantId, env, displayPrefix: displayPrefix(env, text, offset) };
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
      displayPrefix: displayPrefix(env, text, offset),
      expiresAt: expiry === Number.POSITIVE_INFINITY ? null : expiry,
      degraded,
      verified: true,
      rateLimit: profile.rules.length === 0 ? NO_LIMITS : null,
      resources: this.#resources[env],
    };
  }

  /** A policy past maxStaleMs vouches for nobody, but a key that it does not know, or whose time is up, is still bad. */
  #failOpen(text: string, offset: number): Verdict {
    const old = this.#held.policy;
    if (old === null) return this.#unverified(text, offset);
    const outcome = decide(this.#decision, old, this.#settings.env, text, offset, [], this.#now);
    if (outcome === "expired") return DENIED.expired_key;
    return outcome === "valid" ? this.#unverified(text, offset) : DENIED.invalid_key;
  }

  /** Fail-open: the text is a key of ours by its checksum, and nothing else about it is known. */
  #unverified(text: string, offset: number): Verdict {
    const { env } = this.#decision;
    const context: Context = {
      keyId: null,
      workspaceId: null,
      projectId: this.#settings.projectId,
      tenantId: null,
      env,
      scopes: NO_SCOPES,
      displayPrefix: displayPrefix(env, text, offset),
      expiresAt: null,
      degraded: true,
      verified: false,
      rateLimit: null,
      resources: this.#resources[env],
    };
    return { ok: true, context };
  }

  /** The caller hears one text for every invalid key; only the vendor's debug log says which kind it was. */
  #explain(outcome: Outcome, text: string, offset: number): void {
    const prefix = outcome === "malformed" ? null : displayPrefix(this.#decision.env, text, offset);
    this.#log("debug", "a key was refused", { why: outcome, display_prefix: prefix });
  }
}

/** Joined from pieces: a slice of 13 characters or more would keep the whole secret text alive in memory. */
function displayPrefix(env: Env, text: string, offset: number): string {
  return PREFIX[env] + text.slice(offset + 8, offset + 14);
}
