// Log lines about one request: unexpected errors, and refusals that matter to someone who investigates an intrusion.
import { actorColumns } from "../domain/core/actor.ts";
import type { RequestSource, Services } from "../domain/core/context.ts";
import { networkOwner } from "../fairness/owners.ts";
import { fail, Failure } from "../kernel/errors.ts";
import { errorFields } from "../platform/errors.ts";
import type { Endpoint } from "./endpoint.ts";
import type { HttpRequest } from "./request.ts";

const SECURITY_EVENTS: ReadonlySet<number> = new Set([401, 403, 429]);
const INVALID = 400;
const FOREIGN_ID_MAX = 64;

/**
 * Converts anything thrown into a failure. An error that is not one is a bug: logged with its stack, and a 500 for the
 * caller.
 */
export function toFailure(services: Services, endpoint: Endpoint, request: HttpRequest, error: unknown): Failure {
  if (error instanceof Failure) return error;
  services.log.error("request failed", { endpoint: endpoint.name, ...correlation(request), ...errorFields(error) });
  return fail("internal_error");
}

/** Logs a refusal with status 401, 403 or 429, within the limit of lines, and bursts of invalid requests. */
export function logRefusal(
  services: Services,
  endpoint: Endpoint,
  request: HttpRequest,
  { status, code, failure }: Failure,
  origin: () => RequestSource,
): void {
  if (status !== INVALID && !SECURITY_EVENTS.has(status)) return;
  const from = origin();
  const network = networkOwner(from.network).id;
  if (status === INVALID) return services.securityLog.count(network, failure, from.request_id);
  const actor = actorColumns(request.actor);
  // A key without a permission is a mistake that repeats: one line names it, and leaves room for others.
  const key = failure === "lacks_permission" ? (actor.actor_id ?? undefined) : undefined;
  if (!services.securityLog.admits(network, failure, from.request_id, key)) return;
  services.log.info("refused", {
    endpoint: endpoint.name,
    status,
    code,
    failure,
    ...actor,
    ...from,
    ...correlation(request),
  });
}

/** The caller's own ids for the request are logged next to ours and never replace it: anyone can forge them. */
function correlation({ id, headers }: HttpRequest): Record<string, string | undefined> {
  const foreign = (name: string): string | undefined => headers[name]?.toString().slice(0, FOREIGN_ID_MAX);
  return { request_id: id, x_request_id: foreign("x-request-id"), traceparent: foreign("traceparent") };
}
