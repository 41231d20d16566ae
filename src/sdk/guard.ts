// The core of every adapter's `protect`: finds the key, verifies it, charges its rate limits, and returns the context
// or the denial response. Adapters only translate. A request continues only with an `Admitted`; every path decides.

import type { DenialName } from "../kernel/denials.ts";
import { rateLimitHeaders } from "../kernel/ratelimit/headers.ts";
import type { TrustedProxies } from "../kernel/network/trusted-proxies.ts";
import type { RequestClient } from "./telemetry/client-info.ts";
import type { Context, Subject, Verdict } from "./context.ts";
import { type TextResponse, denialResponse } from "./denials.ts";
import { findKey, keyFromValue, type KeyHeaders } from "./key-location.ts";
import type { ChargeResult, Limiter } from "./limits/check.ts";
import type { FailMode } from "./options.ts";
import { type ProtectOptions, readProtectOptions, requireCost, type RouteOptions } from "./protect-options.ts";
import type { OutsideNetworks } from "./telemetry/network-report.ts";
import type { Reporter } from "./telemetry/report.ts";
import type { Otel } from "./otel.ts";
import { ignoreRejection, type Log, type Ports } from "./runtime.ts";
import { type AddedTags, cleanTags, invalidTags, type Tags } from "./telemetry/tags.ts";
import type { ScopeRequirement } from "./scopes.ts";
import type { Verifier } from "./verifier.ts";

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

export class Guard<Req> {
  readonly #dependencies: GuardDependencies;
  readonly #options: RouteOptions<Req>;
  #isIpLogged = false;
  #failed = 0;
  #logFailedAt = 1;

  /** `anyOf`: further groups, of each of which the key must have one. */
  constructor(dependencies: GuardDependencies, options?: ProtectOptions<Req>, anyOf?: ScopeRequirement["any"]) {
    this.#dependencies = dependencies;
    this.#options = readProtectOptions(options, dependencies.failMode, anyOf);
    const { tags } = this.#options;
    const dropped = typeof tags === "object" ? invalidTags(tags) : [];
    if (dropped.length > 0) dependencies.log("warn", "invalid tags in the options of protect", { tags: dropped });
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
      const { skip } = this.#options;
      const isSkipped: unknown = typeof skip === "function" ? ignoreRejection(skip(req)) : skip;
      if (isSkipped === true) return { context: null, headers: {}, denial: null, done: () => {} };
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
    const { scopes, failMode, limits, getKey, cost } = this.#options;
    const key = getKey ? keyFromValue(await getKey(req)) : findKey(incoming, verifier.formats);
    if (!key) return reject("missing_key", state, done);
    const address = () => this.#addressOf(req, incoming);
    const verdict = verifier.judge(key.text, key.offset, scopes.all, failMode, scopes.any, address);
    const { rules, isMetered, rejected } = verifier;
    state.outside = verifier.outside;
    state.subject = verdict.ok ? verdict.context : rejected;
    if (state.subject?.keyId) state.client = this.#clientOf(req, incoming);
    if (!verdict.ok) return this.#reject(verdict, state, done);
    const { context } = verdict;
    state.degraded = context.degraded;
    state.cost = typeof cost === "function" ? requireCost(ignoreRejection(cost(req))) : cost;
    if ((rules.length === 0 && !isMetered) || limits === "off") return { context, headers: {}, denial: null, done };
    const { otel } = this.#dependencies;
    const charge = () => this.#limiter().charge(context, rules, state.cost, isMetered);
    const charged = await (otel ? otel.limits(charge) : charge());
    return this.#applyLimits(context, charged, state, done);
  }

  #reject(verdict: Verdict & { ok: false }, state: RequestState, done: Admitted["done"]): Rejected {
    const { missing } = verdict;
    const extra = missing ? { missing, required: [...new Set([...this.#options.scopes.all, ...missing])] } : {};
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
    const { getIp } = this.#options;
    if (getIp) return this.#readIp(ignoreRejection(getIp(req)));
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
    return this.#options.limits === "lease" ? this.#dependencies.leases : this.#dependencies.checker;
  }

  /** A vendor's function must not fail the request that it describes. */
  #tagsOf(req: Req, { context }: RequestState): Tags | null {
    const { tags } = this.#options;
    const added = this.#dependencies.tags.of(context);
    if (tags === undefined && added === undefined) return null;
    try {
      const own = typeof tags === "function" ? ignoreRejection(tags(req, context)) : tags;
      return cleanTags({ ...own, ...added });
    } catch {
      return cleanTags(added);
    }
  }

  /** The vendor's own name of the route, else the framework's; a function that fails names none. */
  #routeOf(req: Req, found: string | null): string | null {
    const { route } = this.#options;
    if (typeof route !== "function") return route ?? found;
    try {
      const named: unknown = ignoreRejection(route(req));
      return typeof named === "string" ? named : found;
    } catch {
      return found;
    }
  }

  #reportOnce(req: Req, { method, path }: IncomingRequest, state: RequestState): Admitted["done"] {
    const { ports, reporter } = this.#dependencies;
    const began = ports.elapsed();
    let reported = false;
    return (status, found) => {
      if (reported) return;
      reported = true;
      const route = this.#routeOf(req, found);
      const { subject, denial, degraded, cost, outside, client } = state;
      const decision = { subject, denial, degraded, cost, outside, client, tags: this.#tagsOf(req, state) };
      reporter.record({ method, path, route, status, durationMs: ports.elapsed() - began, ...decision });
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
