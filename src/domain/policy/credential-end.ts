// Ends a wait when its credential ends, so that the request is refused at once instead of answered later.
import type { Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { endIfInvalid } from "../core/still-valid.ts";
import type { OnDisconnect } from "../core/subscription.ts";

/** How often to check a waiting session: no notice announces its end. */
const LOOK_MS = 500;

/** How long the credential is still valid. One more millisecond, because a timer may fire that much early. */
export function validMs({ services, actor }: Ctx<Vendor>): number {
  const expires_at = actor.kind === "secret_key" ? actor.expires_at : null;
  return expires_at === null ? Number.POSITIVE_INFINITY : expires_at - services.clock.now() + 1;
}

export function orCredentialEnds(ctx: Ctx<Vendor>, onDisconnect: OnDisconnect): OnDisconnect {
  const { services, actor } = ctx;
  if (actor.kind !== "secret_key") return orSessionEnds(ctx, onDisconnect);
  const { credentialCache } = services;
  const { epoch } = credentialCache;
  return (listener) => {
    const unregister = [onDisconnect(listener), credentialCache.onEvicted(actor.id, listener)];
    // What was evicted since may have been this key, or one of another workspace.
    if (credentialCache.epoch !== epoch) endIfInvalid(ctx, listener);
    return () => unregister.forEach((each) => each());
  };
}

/** Few sessions wait at a time. */
function orSessionEnds(ctx: Ctx<Vendor>, onDisconnect: OnDisconnect): OnDisconnect {
  return (listener) => {
    const unregister = onDisconnect(listener);
    const looking = setInterval(() => endIfInvalid(ctx, listener), LOOK_MS);
    return () => {
      clearInterval(looking);
      unregister();
    };
  };
}
