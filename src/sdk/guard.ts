// The core of every adapter's `protect`: finds the key, verifies it, charges its rate limits, and returns the context
// or the denial response. Adapters only translate. A request continues only with an `Admitted`; every path decides.

import type { KeyFormats } from "../kernel/crypto/key-digest.ts";
import type { Context, Subject, Verdict } from "./context.ts";
import { type TextResponse, type DenialName, denialResponse } from "./denials.ts";
import { type ChargeResult, type Limiter, rateLimitHeaders } from "./limits/check.ts";
import { type FailMode, need, readFailMode } from "./options.ts";
import type { Reporter } from "./report.ts";
import type { Ports } from "./runtime.ts";
import { NO_GROUPS, readScopes, type RequiredScopes, type ScopeRequirement } from "./scopes.ts";
import type { Verifier } from "./verifier.ts";

export type LimitsMode = "check" | "lease" | "off";

/** Options of one route. `Req` is the framework's request. */
export type ProtectOptions<Req = unknown> = {
  /** The key must have all of the list; with `any`, one of that list. */
  scopes?: RequiredScopes;
  failMode?: FailMode;
  /** True, or a function returning true: no verification, and the context is null. */
  skip?: boolean | ((req: Req) => boolean);
  limits?: LimitsMode;
  /** Returns the key, when it is in neither of the usual headers. */
  getKey?: (req: Req) => string | null | undefined | Promise<string | null | undefined>;
};

/** The parts of a request that the guard reads. `path` has no query string. */
export type IncomingRequest = {
  method: string;
  path: string;
  authorization: string | null | undefined;
  apiKey: string | null | undefined;
};

export type Admitted = {
  /** Null on a skipped route. */
  context: Context | null;
  /** To be set on the vendor's response. */
  headers: Record<string, string>;
  denial: null;
  /** Reports the request; call once with the final status. */
  done(status: number, route: string | null): void;
};
export type Rejected = { context: null; headers: Record<string, string>; denial: TextResponse; done: Admitted["done"] };

export type GuardDependencies = {
  verifier: Verifier;
  reporter: Reporter;
  checker: Limiter;
  leases: Limiter;
  ports: Ports;
  failMode: FailMode;
};

type KeyLocation = { text: string; offset: number } | null;
type RequestState = { subject: Subject | null; denial: DenialName | null; degraded: boolean };
const BEARER = "bearer ";
const LIMITS_MODES = ["check", "lease", "off"];
const KNOWN = ["scopes", "failMode", "skip", "limits", "getKey"];

export class Guard<Req> {
  readonly #dependencies: GuardDependencies;
  readonly #scopes: ScopeRequirement;
  readonly #failMode: FailMode;
  readonly #limits: LimitsMode;
  readonly #skip: boolean | ((req: Req) => boolean);
  readonly #getKey: ProtectOptions<Req>["getKey"];

  /** `anyOf`: further groups, of each of which the key must have one. */
  constructor(
    dependencies: GuardDependencies,
    options: ProtectOptions<Req> = {},
    anyOf: ScopeRequirement["any"] = NO_GROUPS,
  ) {
    const { scopes = [], limits = "check", skip = false, getKey } = options;
    for (const name of Object.keys(options)) need(KNOWN.includes(name), `protect has no option "${name}"`);
    need(LIMITS_MODES.includes(limits), 'limits must be "check", "lease" or "off"');
    need(typeof skip === "boolean" || typeof skip === "function", "skip must be true, false or a function");
    need(getKey === undefined || typeof getKey === "function", "getKey must be a function");
    this.#dependencies = dependencies;
    const { all, any } = readScopes(scopes);
    this.#scopes = { all, any: [...any, ...anyOf] };
    this.#failMode = readFailMode(options.failMode ?? dependencies.failMode);
    this.#limits = limits;
    this.#skip = skip;
    this.#getKey = getKey;
  }

  async admit(req: Req, incoming: IncomingRequest): Promise<Admitted | Rejected> {
    // Compared with true: the promise of an async function is truthy too.
    const skip: unknown = typeof this.#skip === "function" ? this.#skip(req) : this.#skip;
    if (skip === true) return { context: null, headers: {}, denial: null, done: () => {} };
    const state: RequestState = { subject: null, denial: null, degraded: false };
    const done = this.#reportOnce(incoming, state);
    const { verifier } = this.#dependencies;
    const key = this.#getKey ? keyFromValue(await this.#getKey(req)) : findKey(incoming, verifier.formats);
    if (!key) return reject("missing_key", state, done);
    const verdict = verifier.judge(key.text, key.offset, this.#scopes.all, this.#failMode, this.#scopes.any);
    const { rules, rejected } = verifier;
    state.subject = verdict.ok ? verdict.context : rejected;
    if (!verdict.ok) return this.#reject(verdict, state, done);
    const { context } = verdict;
    state.degraded = context.degraded;
    if (rules.length === 0 || this.#limits === "off") return { context, headers: {}, denial: null, done };
    const charged = await this.#limiter().charge(context, rules);
    return this.#applyLimits(context, charged, state, done);
  }

  #reject(verdict: Verdict & { ok: false }, state: RequestState, done: Admitted["done"]): Rejected {
    const { missing } = verdict;
    const extra = missing ? { missing, required: [...new Set([...this.#scopes.all, ...missing])] } : {};
    return reject(verdict.code, state, done, extra);
  }

  #applyLimits(
    context: Context,
    charged: ChargeResult,
    state: RequestState,
    done: Admitted["done"],
  ): Admitted | Rejected {
    if (!charged) {
      state.degraded = true;
      return { context: { ...context, degraded: true, rateLimit: null }, headers: {}, denial: null, done };
    }
    const headers = rateLimitHeaders(charged.states);
    if (charged.allowed) return { context: { ...context, rateLimit: charged.states }, headers, denial: null, done };
    return reject("rate_limited", state, done, { retryAfterSeconds: charged.retryAfterSeconds, headers });
  }

  #limiter(): Limiter {
    return this.#limits === "lease" ? this.#dependencies.leases : this.#dependencies.checker;
  }

  #reportOnce({ method, path }: IncomingRequest, state: RequestState): Admitted["done"] {
    const { ports, reporter } = this.#dependencies;
    const began = ports.elapsed();
    let reported = false;
    return (status, route) => {
      if (reported) return;
      reported = true;
      reporter.record({ method, path, route, status, durationMs: ports.elapsed() - began, ...state });
    };
  }
}

function reject(
  name: DenialName,
  state: RequestState,
  done: Admitted["done"],
  extra: Parameters<typeof denialResponse>[1] = {},
): Rejected {
  state.denial = name;
  return { context: null, headers: {}, denial: denialResponse(name, extra), done };
}

/** `Authorization: Bearer <prefix>_…`, else `x-api-key`, else any other bearer token, which was meant as a key. */
export function findKey({ authorization, apiKey }: IncomingRequest, formats: KeyFormats): KeyLocation {
  const bearer = authorization ? bearerOffset(authorization) : 0;
  if (authorization && bearer > 0 && formats.begin(authorization, bearer))
    return { text: authorization, offset: bearer };
  if (apiKey) return { text: apiKey, offset: 0 };
  return authorization && bearer > 0 && bearer < authorization.length ? { text: authorization, offset: bearer } : null;
}

/** The offset of the credential after `Bearer` and spaces, or 0. */
function bearerOffset(header: string): number {
  if (header.slice(0, BEARER.length).toLowerCase() !== BEARER) return 0;
  let at = BEARER.length;
  while (header[at] === " ") at++;
  return at;
}

function keyFromValue(key: unknown): KeyLocation {
  if (key === null || key === undefined || key === "") return null;
  // A value that is not a string cannot be a key: the verifier rejects the placeholder.
  return { text: typeof key === "string" ? key : "?", offset: 0 };
}
