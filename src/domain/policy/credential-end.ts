// A wait that ends with its credential as well: the request is then refused at once instead of answered later.
import type { Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import type { OnDisconnect } from "../core/subscription.ts";

/** Secret keys only: a session that has ended is noticed before the answer. */
export function orCredentialEnds({ services, actor }: Ctx<Vendor>, onDisconnect: OnDisconnect): OnDisconnect {
  if (actor.kind !== "secret_key") return onDisconnect;
  const { credentialCache } = services;
  const { epoch } = credentialCache;
  return (listener) => {
    const unregister = [onDisconnect(listener), credentialCache.onEvicted(actor.id, epoch, listener)];
    return () => unregister.forEach((each) => each());
  };
}
