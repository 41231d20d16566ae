// The core of every `protect`: find the key, judge it, charge its limits, and say what to answer or hand on. Adapters
// only translate. A request goes on only with an `Admitted`; there is no path on which nothing was decided.

import type { Context, Subject, Verdict } from "./context.ts";
import { type TextResponse, type DenialName, denialResponse } from "./denials.ts";
import { type ChargeResult, type Limiter, rateLimitHeaders } from "./limits/check.ts";
import { type FailMode, need, readFailMode } from "./options.ts";
import type { Reporter } from "./report.ts";
import type { Ports } from "./runtime.ts";
import type { Verifier } from "./verifier.ts";

export type LimitsMode = "check" | "lease" | "off";

/** What a route asks for. `Req` is the framework's request. */
export type ProtectOptions<Req = unknown> = {
  /** Every one of them must be on the key. */
  scopes?: readonly string[];
  failMode?: FailMode;
  /** True, or true for this request: no verification, and the context is null. */
  skip?: boolean | ((req: Req) => boolean);
  limits?: LimitsMode;
  /** Where the key is, when it is in neither usual header. */
  getKey?: (req: Req) => string | null | undefined | Promise<string | null | undefined>;
};

/** A request as the guard sees it. `path` carries no query. */
export type IncomingRequest = {
  method: string;
  path: string;
  authorization: string | null | undefined;
  apiKey: string | null | undefined;
};

export type Admitted = {
  /** Null on a skipped route. */
  context: Context | null;
  /** For the vendor's answer. */
  headers: Record<string, string>;
  denial: null;
  /** To be called once, with what was answered in the end. */
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

type Found = { text: string; offset: number } | null;
type State = { subject: Subject | null; denial: DenialName | null; degraded: boolean };
const BEARER = "bearer ";
const LIMITS_MODES = ["check", "lease", "off"];
const KNOWN = ["scopes", "failMode", "skip", "limits", "getKey"];

export class Guard<Req> {
  readonly #parts: GuardDependencies;
  readonly #scopes: readonly string[];
  readonly #failMode: FailMode;
  readonly #limits: LimitsMode;
  readonly #skip: boolean | ((req: Req) => boolean);
  readonly #getKey: ProtectOptions<Req>["getKey"];

  constructor(parts: GuardDependencies, options: ProtectOptions<Req> = {}) {
    const { scopes = [], limits = "check", skip = false, getKey } = options;
    for (const name of Object.keys(options)) need(KNOWN.includes(name), `protect has no option "${name}"`);
    need(
      Array.isArray(scopes) && scopes.every((one) => typeof one === "string" && one !== ""),
      "scopes must be a list",
    );
    need(LIMITS_MODES.includes(limits), 'limits must be "check", "lease" or "off"');
    need(typeof skip === "boolean" || typeof skip === "function", "skip must be true, false or a function");
    need(getKey === undefined || typeof getKey === "function", "getKey must be a function");
    this.#parts = parts;
    this.#scopes = [...scopes];
    this.#failMode = readFailMode(options.failMode ?? parts.failMode);
    this.#limits = limits;
    this.#skip = skip;
    this.#getKey = getKey;
  }

  async admit(req: Req, incoming: IncomingRequest): Promise<Admitted | Rejected> {
    // Exactly true: the promise of an async function is truthy too.
    const skip: unknown = typeof this.#skip === "function" ? this.#skip(req) : this.#skip;
    if (skip === true) return { context: null, headers: {}, denial: null, done: () => {} };
    const state: State = { subject: null, denial: null, degraded: false };
    const done = this.#reportOnce(incoming, state);
    const found = this.#getKey ? given(await this.#getKey(req)) : findKey(incoming);
    if (!found) return refuse("missing_key", state, done);
    const { verifier } = this.#parts;
    const verdict = verifier.judge(found.text, found.offset, this.#scopes, this.#failMode);
    const { rules, refused } = verifier;
    state.subject = verdict.ok ? verdict.context : refused;
    if (!verdict.ok) return this.#refusal(verdict, state, done);
    const { context } = verdict;
    state.degraded = context.degraded;
    if (rules.length === 0 || this.#limits === "off") return { context, headers: {}, denial: null, done };
    const counted = await this.#limiter().charge(context, rules);
    return this.#counted(context, counted, state, done);
  }

  #refusal(verdict: Verdict & { ok: false }, state: State, done: Admitted["done"]): Rejected {
    const extra = verdict.missing ? { missing: verdict.missing, required: this.#scopes } : {};
    return refuse(verdict.code, state, done, extra);
  }

  #counted(context: Context, counted: ChargeResult, state: State, done: Admitted["done"]): Admitted | Rejected {
    if (!counted) {
      state.degraded = true;
      return { context: { ...context, degraded: true, rateLimit: null }, headers: {}, denial: null, done };
    }
    const headers = rateLimitHeaders(counted.states);
    if (counted.allowed) return { context: { ...context, rateLimit: counted.states }, headers, denial: null, done };
    return refuse("rate_limited", state, done, { retryAfterSeconds: counted.retryAfterSeconds, headers });
  }

  #limiter(): Limiter {
    return this.#limits === "lease" ? this.#parts.leases : this.#parts.checker;
  }

  #reportOnce({ method, path }: IncomingRequest, state: State): Admitted["done"] {
    const { ports, reporter } = this.#parts;
    const began = ports.elapsed();
    let reported = false;
    return (status, route) => {
      if (reported) return;
      reported = true;
      reporter.record({ method, path, route, status, durationMs: ports.elapsed() - began, ...state });
    };
  }
}

function refuse(
  name: DenialName,
  state: State,
  done: Admitted["done"],
  extra: Parameters<typeof denialResponse>[1] = {},
): Rejected {
  state.denial = name;
  return { context: null, headers: {}, denial: denialResponse(name, extra), done };
}

/** `Authorization: Bearer kr_…`, else `x-api-key`, else whatever bearer there is: it was meant as a key. */
export function findKey({ authorization, apiKey }: IncomingRequest): Found {
  const bearer = authorization ? afterScheme(authorization) : 0;
  if (authorization && bearer > 0 && authorization.startsWith("kr_", bearer))
    return { text: authorization, offset: bearer };
  if (apiKey) return { text: apiKey, offset: 0 };
  return authorization && bearer > 0 && bearer < authorization.length ? { text: authorization, offset: bearer } : null;
}

/** Where the credential begins after `Bearer` and its spaces, or 0. */
function afterScheme(header: string): number {
  if (header.slice(0, BEARER.length).toLowerCase() !== BEARER) return 0;
  let at = BEARER.length;
  while (header[at] === " ") at++;
  return at;
}

function given(key: unknown): Found {
  if (key === null || key === undefined || key === "") return null;
  // Anything but text is a key that cannot be right: let the verifier refuse it.
  return { text: typeof key === "string" ? key : "?", offset: 0 };
}
