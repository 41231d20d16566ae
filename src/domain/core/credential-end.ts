// Ends a wait or a stream when its credential ends, so that the request is refused at once instead of served later.
import { Failure } from "../../kernel/errors.ts";
import type { Vendor } from "./actor.ts";
import type { Ctx } from "./context.ts";
import type { OnDisconnect } from "./subscription.ts";

/** How often to check a waiting session: no notification announces its end. */
const RECHECK_MS = 500;

/** Calls `end` if the credential has ended, but not if that cannot be found out, as without the database. */
function endIfInvalid(ctx: Ctx, end: () => void): void {
  ctx.requireStillValid?.().catch((error) => {
    if (error instanceof Failure && error.status < 500) end();
  });
}

/** Calls `end` once the credential has ended. Returns how to stop that. */
export function recheckEvery(ms: number, ctx: Ctx, end: () => void): () => void {
  const timer = setInterval(() => endIfInvalid(ctx, end), ms).unref();
  return () => clearInterval(timer);
}

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
    const unregister = [onDisconnect(listener), recheckEvery(RECHECK_MS, ctx, listener)];
    return () => unregister.forEach((each) => each());
  };
}
