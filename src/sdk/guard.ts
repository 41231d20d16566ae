// The core of every adapter's `protect`: finds the key, verifies it, charges its rate limits, and returns the context
// or the denial response. Adapters only translate. A request continues only with an `Admitted`; every path decides.

import { rateLimitHeaders } from "../kernel/ratelimit/headers.ts";
import type { TrustedProxies } from "../kernel/network/trusted-proxies.ts";
import type { RequestClient } from "./telemetry/client-info.ts";
import type { Context, Subject, Verdict } from "./context.ts";
import { type TextResponse, type DenialName, denialResponse } from "./denials.ts";
import { findKey, keyFromValue, type KeyHeaders } from "./key-location.ts";
import type { ChargeResult, Limiter } from "./limits/check.ts";
import { type FailMode, need, readFailMode } from "./options.ts";
import type { OutsideNetworks } from "./telemetry/network-report.ts";
import type { Reporter } from "./telemetry/report.ts";
import type { Otel } from "./otel.ts";
import { ignoreRejection, type Log, type Ports } from "./runtime.ts";
import { type AddedTags, cleanTags, type Tags } from "./telemetry/tags.ts";
import { NO_GROUPS, readScopes, type RequiredScopes, type ScopeRequirement } from "./scopes.ts";
import type { Verifier } from "./verifier.ts";

export type LimitsMode = "check" | "lease" | "off";

/** Options of one route. `Req` is the framework's request. */
export type ProtectOptions<Req = unknown> = {
  /** The key must have all of the list; with `any`, one of that list. */
  scopes?: RequiredScopes | undefined;
  failMode?: FailMode | undefined;
  /** True, or a function returning true: no verification, and the context is null. */
  skip?: boolean | ((req: Req) => boolean) | undefined;
  limits?: LimitsMode | undefined;
  /** Returns the key, when it is in neither of the usual headers. */
  getKey?: ((req: Req) => string | null | undefined | Promise<string | null | undefined>) | undefined;
  /** Returns the client's address, or null; replaces the socket's address and `trustedProxies`. */
  getIp?: ((req: Req) => string | null | undefined) | undefined;
  /**
   * Units that the request is charged to rate limits and counts in usage: a whole number from 0 to 1000. Default: 1.
   */
  cost?: number | ((req: Req) => number) | undefined;
  /** Up to four names and values to group usage by. A function that throws reports none. */
  tags?: Tags | ((req: Req, context: Context | null) => Tags | null | undefined) | undefined;
};

/** The parts of a request that the guard reads. `path` has no query string. */
export type IncomingRequest = KeyHeaders & {
  method: string;
  path: string;
  /** The address of the socket's peer, `unix` for a Unix socket, null when unknown. */
  peer?: string | null;
  forwardedFor?: string | null | undefined;
  userAgent?: string | null | undefined;
};

type Admitted = {
  /** Null on a skipped route. */
  context: Context | null;
  /** To be set on the vendor's response. */
  headers: Record<string, string>;
  denial: null;
  /** Reports the request; call once with the final status. */
  done(status: number, route: string | null): void;
};
type Rejected = { context: null; headers: Record<string, string>; denial: TextResponse; done: Admitted["done"] };

export type GuardDependencies = {
  verifier: Verifier;
  reporter: Reporter;
  checker: Limiter;
  leases: Limiter;
  ports: Ports;
  log: Log;
  failMode: FailMode;
  trustedProxies: TrustedProxies;
  clientInfo: boolean;
  tags: AddedTags;
  /** Null: not used. */
  otel: Otel | null;
};

type RequestState = {
  subject: Subject | null;
  denial: DenialName | null;
  degraded: boolean;
  cost: number;
  context: Context | null;
  outside: OutsideNetworks | null;
  client: RequestClient | null;
};
const LIMITS_MODES = ["check", "lease", "off"];
const COST_MAX = 1000;
const KNOWN: Readonly<Record<keyof ProtectOptions, true>> = {
  scopes: true,
  failMode: true,
  skip: true,
  limits: true,
  getKey: true,
  getIp: true,
  cost: true,
  tags: true,
};

export class Guard<Req> {
  readonly #dependencies: GuardDependencies;
  readonly #scopes: ScopeRequirement;
  readonly #failMode: FailMode;
  readonly #limits: LimitsMode;
  readonly #skip: boolean | ((req: Req) => boolean);
  readonly #getKey: ProtectOptions<Req>["getKey"];
  readonly #getIp: ProtectOptions<Req>["getIp"];
  readonly #cost: NonNullable<ProtectOptions<Req>["cost"]>;
  readonly #tags: ProtectOptions<Req>["tags"];
  #isIpLogged = false;
  #failed = 0;
  #logFailedAt = 1;

  /** `anyOf`: further groups, of each of which the key must have one. */
  constructor(
    dependencies: GuardDependencies,
    options: ProtectOptions<Req> = {},
    anyOf: ScopeRequirement["any"] = NO_GROUPS,
  ) {
    need(typeof options === "object" && options !== null, "protect takes an object of options");
    const { scopes = [], limits = "check", skip = false, getKey, getIp, cost = 1, tags } = options;
    for (const name of Object.keys(options)) need(Object.hasOwn(KNOWN, name), `protect has no option "${name}"`);
    need(LIMITS_MODES.includes(limits), 'limits must be "check", "lease" or "off"');
    need(typeof skip === "boolean" || typeof skip === "function", "skip must be true, false or a function");
    need(getKey === undefined || typeof getKey === "function", "getKey must be a function");
    need(getIp === undefined || typeof getIp === "function", "getIp must be a function");
    if (typeof cost !== "function") requireCost(cost);
    need(tags === undefined || (typeof tags === "object" ? tags !== null : typeof tags === "function"), TAGS_SENTENCE);
    this.#dependencies = dependencies;
    const { all, any } = readScopes(scopes);
    this.#scopes = { all, any: [...any, ...anyOf] };
    this.#failMode = readFailMode(options.failMode ?? dependencies.failMode);
    this.#limits = limits;
    this.#skip = skip;
    this.#getKey = getKey;
    this.#getIp = getIp;
    this.#cost = cost;
    this.#tags = tags;
  }

  /** Rejects only if one of the vendor's functions throws, or `cost` returns what cannot be charged. */
  async admit(req: Req, incoming: IncomingRequest): Promise<Admitted | Rejected> {
    const state: RequestState = {
      subject: null,
      denial: null,
      degraded: false,
      cost: 1,
      context: null,
      outside: null,
      client: null,
    };
    const done = this.#reportOnce(req, incoming, state);
    try {
      // Compared with true: the promise of an async function is truthy too.
      const skip: unknown = typeof this.#skip === "function" ? ignoreRejection(this.#skip(req)) : this.#skip;
      if (skip === true) return { context: null, headers: {}, denial: null, done: () => {} };
      const decided = await this.#decide(req, incoming, state, done);
      state.context = decided.context;
      this.#dependencies.otel?.decided(state);
      return decided;
    } catch (error) {
      this.#logFailed(error);
      done(500, null);
      throw error;
    }
  }

  async #decide(
    req: Req,
    incoming: IncomingRequest,
    state: RequestState,
    done: Admitted["done"],
  ): Promise<Admitted | Rejected> {
    const { verifier } = this.#dependencies;
    const key = this.#getKey ? keyFromValue(await this.#getKey(req)) : findKey(incoming, verifier.formats);
    if (!key) return reject("missing_key", state, done);
    const { all, any } = this.#scopes;
    const address = () => this.#addressOf(req, incoming);
    const verdict = verifier.judge(key.text, key.offset, all, this.#failMode, any, address);
    const { rules, isMetered, rejected } = verifier;
    state.outside = verifier.outside;
    state.subject = verdict.ok ? verdict.context : rejected;
    if (state.subject?.keyId) state.client = this.#clientOf(req, incoming);
    if (!verdict.ok) return this.#reject(verdict, state, done);
    const { context } = verdict;
    state.degraded = context.degraded;
    state.cost = typeof this.#cost === "function" ? requireCost(ignoreRejection(this.#cost(req))) : this.#cost;
    if ((rules.length === 0 && !isMetered) || this.#limits === "off")
      return { context, headers: {}, denial: null, done };
    const { otel } = this.#dependencies;
    const charge = () => this.#limiter().charge(context, rules, state.cost, isMetered);
    const charged = await (otel ? otel.limits(charge) : charge());
    return this.#applyLimits(context, charged, state, done);
  }

  #reject(verdict: Verdict & { ok: false }, state: RequestState, done: Admitted["done"]): Rejected {
    const { missing } = verdict;
    const extra = missing ? { missing, required: [...new Set([...this.#scopes.all, ...missing])] } : {};
    return reject(verdict.code, state, done, extra);
  }

  #applyLimits(
    context: Context,
    charged: ChargeResult | "unavailable",
    state: RequestState,
    done: Admitted["done"],
  ): Admitted | Rejected {
    if (charged === "unavailable") return reject("unavailable", state, done);
    if (!charged) {
      state.degraded = true;
      return { context: { ...context, degraded: true, rateLimit: null }, headers: {}, denial: null, done };
    }
    const headers = rateLimitHeaders(charged.states);
    if (charged.allowed) return { context: { ...context, rateLimit: charged.states }, headers, denial: null, done };
    const { retryAfterSeconds, quota } = charged;
    if (quota) return reject("quota_exceeded", state, done, { retryAfterSeconds, headers, quota });
    return reject("rate_limited", state, done, { retryAfterSeconds, headers });
  }

  #addressOf(req: Req, { peer = null, forwardedFor }: IncomingRequest): string | null {
    if (this.#getIp) return this.#readIp(ignoreRejection(this.#getIp(req)));
    return this.#dependencies.trustedProxies.clientOf(peer, forwardedFor);
  }

  /** Not for every request: a customer may choose what makes a function fail. */
  #logFailed(error: unknown): void {
    if (++this.#failed < this.#logFailedAt) return;
    this.#logFailedAt = 2 * this.#failed;
    const fields = { why: String(error), requests: this.#failed };
    this.#dependencies.log("error", "a function in the options of protect failed", fields);
  }

  /** An async `getIp` has no address: the verdict does not wait for one. */
  #readIp(ip: unknown): string | null {
    if (typeof ip === "string") return ip;
    if (ip === null || ip === undefined) return null;
    if (!this.#isIpLogged) this.#dependencies.log("error", "getIp must return a string or null, and no promise", {});
    this.#isIpLogged = true;
    return null;
  }

  /** Read now: once the response has ended, the socket has no address. */
  #clientOf(req: Req, incoming: IncomingRequest): RequestClient | null {
    if (!this.#dependencies.clientInfo) return null;
    const { userAgent } = incoming;
    try {
      return { address: this.#addressOf(req, incoming), userAgent };
    } catch {
      return { address: null, userAgent }; // getIp must not fail a request whose key is not confined
    }
  }

  #limiter(): Limiter {
    return this.#limits === "lease" ? this.#dependencies.leases : this.#dependencies.checker;
  }

  /** A vendor's function must not fail the request that it describes. */
  #tagsOf(req: Req, { context }: RequestState): Tags | null {
    const added = this.#dependencies.tags.of(context);
    if (this.#tags === undefined && added === undefined) return null;
    try {
      const own = typeof this.#tags === "function" ? ignoreRejection(this.#tags(req, context)) : this.#tags;
      return cleanTags({ ...own, ...added });
    } catch {
      return cleanTags(added);
    }
  }

  #reportOnce(req: Req, { method, path }: IncomingRequest, state: RequestState): Admitted["done"] {
    const { ports, reporter } = this.#dependencies;
    const began = ports.elapsed();
    let reported = false;
    return (status, route) => {
      if (reported) return;
      reported = true;
      const { subject, denial, degraded, cost, outside, client } = state;
      const decision = { subject, denial, degraded, cost, outside, client, tags: this.#tagsOf(req, state) };
      reporter.record({ method, path, route, status, durationMs: ports.elapsed() - began, ...decision });
    };
  }
}

const TAGS_SENTENCE = "tags must be an object or a function";

export function requireCost(cost: unknown): number {
  const isCost = typeof cost === "number" && Number.isInteger(cost) && cost >= 0 && cost <= COST_MAX;
  need(isCost, `cost must be a whole number from 0 to ${COST_MAX}`);
  return cost;
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
