// Cross-origin access (decision 162). Only the embed plane, the JWKS and the portal's script may be read from another
// origin, and credentials mode is never allowed: authority is in the token alone.
import type { Services } from "../domain/core/context.ts";
import { isRegisteredOrigin } from "../domain/embed/embed.ts";
import { fail } from "../kernel/errors.ts";
import { normalizeOrigin } from "../kernel/origins.ts";
import type { HttpRequest } from "./request.ts";
import { failureResponse, HttpResponse } from "./response.ts";

/** Who may read an endpoint's answers from a page: registered origins, or everyone. Without it, nobody. */
export type Cors = "embed" | "any";

const ANY = { "access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin" };

/** An answer or refusal with its headers. An unregistered origin gets none, so its page learns nothing. */
export async function withCors(
  services: Services,
  cors: Cors,
  request: HttpRequest,
  answer: HttpResponse,
): Promise<HttpResponse> {
  const headers = cors === "any" ? ANY : await embedHeaders(services, request);
  return new HttpResponse(answer.status, answer.body, { ...headers, ...answer.headers });
}

async function embedHeaders(services: Services, request: HttpRequest): Promise<Record<string, string>> {
  const shared = { "cross-origin-resource-policy": "cross-origin", vary: "origin" };
  const origin = await allowedOrigin(services, request);
  if (origin === null) return shared;
  return {
    ...shared,
    "access-control-allow-origin": origin,
    "access-control-expose-headers": "request-id, retry-after, ratelimit, ratelimit-policy",
  };
}

/** A preflight carries no token: all it can ask is whether any workspace registers the origin. */
export async function preflight(services: Services, request: HttpRequest): Promise<HttpResponse> {
  const origin = await allowedOrigin(services, request);
  if (origin === null) return failureResponse(fail("origin_not_allowed", { headers: { vary: "origin" } }), false);
  return new HttpResponse(204, null, {
    "access-control-allow-origin": origin,
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "authorization, content-type",
    "access-control-max-age": "600",
    vary: "origin",
  });
}

/** In its one spelling, which is how a browser sends it: what is echoed matched a strict pattern. */
async function allowedOrigin(services: Services, request: HttpRequest): Promise<string | null> {
  const { origin } = request.headers;
  try {
    return origin !== undefined && (await isRegisteredOrigin(services, origin)) ? normalizeOrigin(origin) : null;
  } catch {
    return null; // the database is away: the refusal that says so must still go out
  }
}
