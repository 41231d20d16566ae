// The types of a client of Keyrack's API: a route is named by its text, and the endpoint's declaration types its input
// and output. Types only, so that an importer loads no code of the server.
import type { Api } from "./api/index.ts";

type Types = NonNullable<Api["_types"]>;
export type Route = Types["route"];
type EndpointOf<R extends Route> = Extract<Types, { route: R }>;

type OptionalIfEmpty<Name extends string, T> = [T] extends [undefined]
  ? unknown
  : object extends T
    ? { [K in Name]?: T }
    : { [K in Name]: T };

export type RouteInput<R extends Route> = OptionalIfEmpty<"params", EndpointOf<R>["params"]> &
  OptionalIfEmpty<"query", EndpointOf<R>["query"]> &
  OptionalIfEmpty<"body", EndpointOf<R>["body"]> & { idempotencyKey?: string };
export type RouteOutput<R extends Route> = EndpointOf<R>["output"];
