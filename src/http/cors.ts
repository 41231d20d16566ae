// Cross-origin access. Only the embed plane, the JWKS and the portal's script may be read from another origin, and
// credentials mode is never allowed: authority is in the token alone.
import type { Services } from "../domain/core/context.ts";
import { isRegisteredOrigin } from "../domain/embed/embed.ts";
import type { IncomingMessage } from "node:http";
import { fail } from "../kernel/errors.ts";
import { normalizeOrigin } from "../kernel/origins.ts";
import type { HttpRequest } from "./request.ts";
import { failureResponse, HttpResponse } from "./response.ts";

type WithHeaders = Pick<HttpRequest, "headers">;

/** Which pages may read an endpoint's responses: those of registered origins, or any. */
export type Cors = "embed" | "any";

const ANY = { "access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin" };

/** Adds CORS headers to a response, refusals included. An unregistered origin gets none, so its page reads nothing. */
export async function withCors(
  services: Services,
  cors: Cors,
  request: WithHeaders,
  response: HttpResponse,
): Promise<HttpResponse> {
  const headers = cors === "any" ? ANY : await embedHeaders(services, request);
  return new HttpResponse(response.status, response.body, { ...headers, ...response.headers });
}

const EMBED_PLANE = "/v1/embed/";

/** For refusals outside the pipeline: overload, deadline and time-out. */
export async function withCorsByPath(
  services: Services,
  { url = "", headers }: Pick<IncomingMessage, "url" | "headers">,
  response: HttpResponse,
): Promise<HttpResponse> {
  return url.startsWith(EMBED_PLANE) ? withCors(services, "embed", { headers }, response) : response;
}

async function embedHeaders(services: Services, request: WithHeaders): Promise<Record<string, string>> {
  const shared = { "cross-origin-resource-policy": "cross-origin", vary: "origin" };
  const origin = await allowedOrigin(services, request);
  if (origin === null) return shared;
  return {
    ...shared,
    "access-control-allow-origin": origin,
    "access-control-expose-headers": "request-id, retry-after, ratelimit, ratelimit-policy",
  };
}

/** A preflight carries no token, so it can only depend on whether any workspace registers the origin. */
export async function preflight(services: Services, request: HttpRequest): Promise<HttpResponse> {
  const origin = await allowedOrigin(services, request);
  if (origin === null) return failureResponse(fail("origin_not_allowed", { headers: { vary: "origin" } }));
  return new HttpResponse(204, null, {
    "access-control-allow-origin": origin,
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "authorization, content-type, idempotency-key",
    "access-control-max-age": "600",
    vary: "origin",
  });
}

/** The normalized origin, which is what browsers send: only text that matched a strict pattern is echoed. */
async function allowedOrigin(services: Services, request: WithHeaders): Promise<string | null> {
  const { origin } = request.headers;
  try {
    return origin !== undefined && (await isRegisteredOrigin(services, origin)) ? normalizeOrigin(origin) : null;
  } catch {
    return null; // the database is unavailable: the refusal that says so must still be sent
  }
}
