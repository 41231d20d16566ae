// The API's own OpenAPI document.
import { z } from "zod";
import { endpoint, type Endpoint } from "../../http/endpoint.ts";
import { HttpResponse, JSON_TYPE } from "../../http/response.ts";
import { openApiDocument } from "../../http/openapi.ts";

/** Takes a function, because the list of all endpoints includes this one. */
export function openapiShow(all: () => readonly Endpoint[]): Endpoint {
  let cached: Promise<Uint8Array> | undefined; // half a megabyte: serialising it for each request would hold up others
  const build = async (): Promise<Uint8Array> => Buffer.from(JSON.stringify(await openApiDocument(all())));
  return endpoint("GET /openapi.json", {
    summary: "This API as an OpenAPI 3.1 document.",
    access: "public",
    looseQuery: true,
    output: z.record(z.string(), z.unknown()),
    handle: async () => new HttpResponse(200, await (cached ??= build()), { "content-type": JSON_TYPE }),
  });
}
