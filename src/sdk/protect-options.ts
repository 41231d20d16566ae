// The options of one `protect`: validated when the route is created, so that no request fails for an invalid one.

import { COST_MAX } from "../kernel/usage/event-bounds.ts";
import type { Context } from "./context.ts";
import { type FailMode, need, readFailMode } from "./options.ts";
import { NO_GROUPS, readScopes, type RequiredScopes, type ScopeRequirement } from "./scopes.ts";
import type { Tags } from "./telemetry/tags.ts";

export type LimitsMode = "check" | "lease" | "off";

/** Options of one route. `Req` is the framework's request. */
export type ProtectOptions<Req = unknown> = {
  /** The key must have all of the list; with `any`, one of that list. */
  scopes?: RequiredScopes | undefined;
  failMode?: FailMode | undefined;
  /** True, or a function returning true: no verification, and the context is null. */
  skip?: boolean | ((req: Req) => boolean) | undefined;
  /** "off": neither rate limits nor quotas are charged. */
  limits?: LimitsMode | undefined;
  /** Returns the key, when it is in neither of the usual headers. */
  getKey?: ((req: Req) => string | null | undefined | Promise<string | null | undefined>) | undefined;
  /** Returns the client's address, or null; replaces the socket's address and `trustedProxies`. */
  getIp?: ((req: Req) => string | null | undefined) | undefined;
  /**
   * Units that the request is charged to rate limits and quotas and counts in usage: a whole number from 0 to 1000.
   * Default: 1.
   */
  cost?: number | ((req: Req) => number) | undefined;
  /** Up to four names and values to group usage by. A function that throws reports none. */
  tags?: Tags | ((req: Req, context: Context | null) => Tags | null | undefined) | undefined;
  /**
   * The name of the route in usage, such as `/orders/:id`. Default: the one of the framework; on `node` and `fetch`,
   * which have none, null.
   */
  route?: string | ((req: Req) => string | null | undefined) | undefined;
};

/** The same, valid and complete. */
export type RouteOptions<Req> = Readonly<ReturnType<typeof readProtectOptions<Req>>>;

const LIMITS_MODES = ["check", "lease", "off"];
const KNOWN: Readonly<Record<keyof ProtectOptions, true>> = {
  scopes: true,
  failMode: true,
  skip: true,
  limits: true,
  getKey: true,
  getIp: true,
  cost: true,
  tags: true,
  route: true,
};

/** `anyOf`: further groups, of each of which the key must have one. */
export function readProtectOptions<Req>(
  options: ProtectOptions<Req> = {},
  defaultFailMode: FailMode,
  anyOf: ScopeRequirement["any"] = NO_GROUPS,
) {
  need(typeof options === "object" && options !== null, "protect takes an object of options");
  const { scopes = [], limits = "check", skip = false, getKey, getIp, cost = 1, tags, route } = options;
  for (const name of Object.keys(options)) need(Object.hasOwn(KNOWN, name), `protect has no option "${name}"`);
  need(LIMITS_MODES.includes(limits), 'limits must be "check", "lease" or "off"');
  need(typeof skip === "boolean" || typeof skip === "function", "skip must be true, false or a function");
  need(getKey === undefined || typeof getKey === "function", "getKey must be a function");
  need(getIp === undefined || typeof getIp === "function", "getIp must be a function");
  if (typeof cost !== "function") requireCost(cost);
  const isObject = typeof tags === "object" && tags !== null && !Array.isArray(tags);
  const isTags = isObject || tags === undefined || typeof tags === "function";
  need(isTags, "tags must be an object or a function");
  const isRoute = typeof route === "string" ? route !== "" : route === undefined || typeof route === "function";
  need(isRoute, "route must be a text or a function");
  const failMode = readFailMode(options.failMode ?? defaultFailMode);
  const { all, any } = readScopes(scopes);
  const required: ScopeRequirement = { all, any: [...any, ...anyOf] };
  return { scopes: required, failMode, skip, limits, getKey, getIp, cost, tags, route };
}

export function requireCost(cost: unknown): number {
  const isCost = typeof cost === "number" && Number.isInteger(cost) && cost >= 0 && cost <= COST_MAX;
  need(isCost, `cost must be a whole number from 0 to ${COST_MAX}`);
  return cost;
}
