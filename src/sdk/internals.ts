// How adapters access the internals of the object that createKeyrack returns. Adapters import this file instead of the
// library itself, so that each adds only a few kilobytes.

import type { TrustedProxies } from "../kernel/network/trusted-proxies.ts";
import type { Guard } from "./guard.ts";
import type { ProtectOptions } from "./protect-options.ts";
import type { IdempotentOptions, IdempotentRoute } from "./idempotency/idempotency.ts";
import type { Keyrack } from "./instance.ts";
import type { ScopeRequirement } from "./scopes.ts";

/** What createKeyrack makes. The symbol is not in the public type: the types for CommonJS declare another one. */
export type Instance<Resources = unknown> = Keyrack<Resources> & { readonly [INTERNALS]: Internals };

/** A registered symbol, because one process may load this library twice: as ESM and as CommonJS. */
export const INTERNALS: unique symbol = Symbol.for("keyrack.sdk.parts") as never;

type Internals = {
  guard<Req>(options?: ProtectOptions<Req>, anyOf?: ScopeRequirement["any"]): Guard<Req>;
  /** Throws for anything but a handler. */
  idempotent(handler: unknown, options?: IdempotentOptions): IdempotentRoute;
  readonly trustedProxies: TrustedProxies;
};

/** For adapters. */
export function internalsOf(keyrack: Keyrack): Internals {
  const internals = (keyrack as Partial<Instance> | null | undefined)?.[INTERNALS];
  if (!internals) throw new TypeError("keyrack: the first argument must come from createKeyrack.");
  return internals;
}
