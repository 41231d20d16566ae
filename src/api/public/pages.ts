// The dashboard: one page, which also opens the links in mail, and its assets. Credentials are ignored.
import { z } from "zod";
import { builtPages } from "../../http/assets.ts";
import { endpoint } from "../../http/endpoint.ts";
import { fail } from "../../kernel/errors.ts";

export const pages = builtPages();

export const pagesIndex = endpoint("GET /", {
  summary: "The dashboard: a page that runs in the browser and uses this API.",
  access: "public",
  looseQuery: true,
  produces: ["text/html"],
  output: z.string(),
  failures: ["pages_not_built"],
  handle: () => pages.index(),
});

export const pagesAsset = endpoint("GET /assets/{file}", {
  summary: "A script, style sheet or icon of the dashboard. Its name contains a hash of its content.",
  access: "public",
  params: z.strictObject({ file: z.string().describe("name of the file") }),
  looseQuery: true,
  produces: ["text/javascript"],
  output: z.string(),
  failures: ["asset_not_found"],
  handle: (_ctx, { params, request }) => {
    const accepted = request.headers["accept-encoding"];
    const response = pages.asset(params.file, Array.isArray(accepted) ? accepted.join(",") : accepted);
    if (!response) throw fail("asset_not_found");
    return response;
  },
});
