// The web pages that mail links open, and their assets. Credentials are ignored.
import { z } from "zod";
import { builtPages } from "../../http/assets.ts";
import { endpoint } from "../../http/endpoint.ts";
import { fail } from "../../kernel/errors.ts";

export const pages = builtPages();

export const pagesIndex = endpoint("GET /", {
  summary: "The web pages: verify an email address, set a password, accept an invitation.",
  access: "public",
  looseQuery: true,
  produces: "text/html",
  output: z.string(),
  failures: ["pages_not_built"],
  handle: () => pages.index(),
});

export const pagesAsset = endpoint("GET /assets/{file}", {
  summary: "A script or style sheet of the web pages. Its name contains a hash of its content.",
  access: "public",
  params: z.strictObject({ file: z.string().describe("name of the file") }),
  looseQuery: true,
  produces: "text/javascript",
  output: z.string(),
  failures: ["asset_not_found"],
  handle: (_ctx, { params }) => {
    const response = pages.asset(params.file);
    if (!response) throw fail("asset_not_found");
    return response;
  },
});
