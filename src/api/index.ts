// The list of all endpoints: router, docs, CLI and tests read it.
import type { Endpoint } from "../http/endpoint.ts";
import * as planes from "./planes.ts";
import { openapiShow } from "./public/openapi.ts";

/** The types of the API for the typed client; for `import type` only. */
export type Api = (typeof planes)[keyof typeof planes];

// Loaders order the exports of a module differently; generated documents need a stable order.
const byRoute = (a: Endpoint, b: Endpoint): number => (a.path + a.method < b.path + b.method ? -1 : 1);

export const endpoints: readonly Endpoint[] = [...Object.values(planes), openapiShow(() => endpoints)].toSorted(
  byRoute,
);
