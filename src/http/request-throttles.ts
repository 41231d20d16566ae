// Throttles requests by kind of credential: before the credential is looked up, and once it is known.
import { ownerOf, type Actor } from "../domain/core/actor.ts";
import type { Services } from "../domain/core/context.ts";
import { throttleHolder } from "../domain/auth/holders.ts";
import { isHolderPlane } from "./access.ts";
import type { Endpoint } from "./endpoint.ts";
import { MINUTE_MS } from "../kernel/durations.ts";

const EMBED_THROTTLE = { name: "embed", limit: 120, windowMs: MINUTE_MS };
const EMBED_WRITES_THROTTLE = { name: "embed-writes", limit: 30, windowMs: MINUTE_MS };

/** Before the credential is looked up. */
export function throttleNetwork(
  services: Services,
  { access, perHolder, tokensPerNetwork }: Endpoint,
  token: string | null,
  network: () => string,
): void {
  if (isHolderPlane(access)) throttleHolder(services, token, network(), perHolder);
  if (tokensPerNetwork && !token?.startsWith("krses_")) services.throttles.takeOfNetwork(tokensPerNetwork, network());
}

/**
 * The embed plane is reachable by any browser and always throttled; other credentials only if a cap or the endpoint
 * says so.
 */
export function throttleActor(services: Services, actor: Actor, endpoint: Endpoint): void {
  if (actor.kind === "embed_token") {
    const subject = `${actor.tenant_id} ${actor.env}`;
    services.throttles.take(EMBED_THROTTLE, subject, ownerOf(actor));
    if (endpoint.method !== "GET") services.throttles.take(EMBED_WRITES_THROTTLE, subject, ownerOf(actor));
  }
  const limit = services.settings.vendor_per_minute;
  if (limit > 0 && (actor.kind === "secret_key" || actor.kind === "session"))
    services.throttles.take({ name: "vendor", limit, windowMs: MINUTE_MS }, actor.id, ownerOf(actor));
  if (endpoint.perOwner) services.throttles.take(endpoint.perOwner, ownerOf(actor).id, ownerOf(actor));
}
