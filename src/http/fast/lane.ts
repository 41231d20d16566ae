// The fast lane: serves endpoints declared `hot` on node's own request and response objects, in front of h3 and through
// the same pipeline. Declines every spelling of a path that h3 would normalize first. bench: lanes/check
import type { Services } from "../../domain/core/context.ts";
import type { Endpoint } from "../endpoint.ts";
import { run } from "../pipeline.ts";
import { toHttpRequest } from "../request.ts";
import type { RouterOptions } from "../router.ts";
import { sendSafely } from "../sending/safely.ts";
import type { FastRequest } from "./request.ts";
import { sendFast, type FastResponse } from "./response.ts";
import { Routes } from "./routes.ts";

/** False if the request is left to h3. */
type FastLane = (req: FastRequest, res: FastResponse) => boolean;

export function fastLane(services: Services, endpoints: readonly Endpoint[], options: RouterOptions): FastLane {
  const { guard, defaults, addressOf } = options;
  const routes = new Routes<Endpoint>(endpoints.map(({ path }) => path));
  for (const endpoint of endpoints) if (endpoint.hot) routes.add(endpoint, endpoint);
  return (req, res) => {
    const { url = "", method = "" } = req;
    const at = url.indexOf("?");
    const route = routes.find(method, at < 0 ? url : url.slice(0, at));
    if (!route) return false;
    const request = toHttpRequest(services.newId(), req, route.params, req);
    const exchange = { request, res, addressOf };
    guard.serve(
      res,
      (respond) => run(services, route.target, request, options, respond),
      (response) => sendSafely(services, exchange, (charge) => sendFast(res, response, request.id, defaults, charge)),
    );
    return true;
  };
}
