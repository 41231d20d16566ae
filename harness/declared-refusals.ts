// The status of every refusal that a test meets must be in the API description of its endpoint.
import { endpoints } from "../src/api/index.ts";
import { failuresOf } from "../src/http/openapi.ts";
import { failures } from "../src/kernel/errors.ts";
import type { Reply } from "./processes/send.ts";

/** An endpoint that the settings switch off. */
const [, , NO_ROUTE] = failures.no_such_route;

type Declared = { route: RegExp; name: string; statuses: ReadonlySet<number> };

const declared: readonly Declared[] = endpoints.map((endpoint) => ({
  route: new RegExp(`^${endpoint.name.replace(/\{\w+\}/g, "[^/]+")}$`),
  name: endpoint.name,
  statuses: new Set(failuresOf(endpoint).map((name) => failures[name][0])),
}));

export function requireDeclared(route: string, { status, body, text }: Reply): void {
  if (status < 400 || body?.error?.message === NO_ROUTE) return;
  const endpoint = declared.find((each) => each.route.test(route.replace(/\?.*$/, "")));
  if (endpoint && !endpoint.statuses.has(status))
    throw new Error(`${endpoint.name} does not declare ${status}: ${text}`);
}
