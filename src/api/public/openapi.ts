// The API's own OpenAPI document.
import { z } from "zod";
import { endpoint, type Endpoint } from "../../http/endpoint.ts";
import { jsonResponse } from "../../http/response.ts";
import { openApiDocument } from "../../http/openapi.ts";

/** Takes a function, because the list of all endpoints includes this one. */
export function openapiShow(all: () => readonly Endpoint[]): Endpoint {
  let cached: unknown;
  return endpoint("GET /openapi.json", {
    summary: "This API as an OpenAPI 3.1 document.",
    access: "public",
    looseQuery: true,
    output: z.record(z.string(), z.unknown()),
    handle: () => jsonResponse(200, (cached ??= openApiDocument(all()))),
  });
}
