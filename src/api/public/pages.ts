// The people's pages behind the links in their mail, and what those pages load. No credential is looked at.
import { z } from "zod";
import { builtPages } from "../../http/assets.ts";
import { endpoint } from "../../http/endpoint.ts";
import { fail } from "../../kernel/errors.ts";

const pages = builtPages();

export const pagesIndex = endpoint("GET /", {
  summary: "The people's pages: verify an address, choose a password, accept an invitation.",
  access: "public",
  looseQuery: true,
  produces: "text/html",
  output: z.string(),
  failures: ["pages_not_built"],
  handle: () => pages.index(),
});

export const pagesAsset = endpoint("GET /assets/{file}", {
  summary: "A script or style sheet of the people's pages, under a name that changes with its content.",
  access: "public",
  params: z.strictObject({ file: z.string() }),
  looseQuery: true,
  produces: "text/javascript",
  output: z.string(),
  failures: ["asset_not_found"],
  handle: (_ctx, { params }) => {
    const answer = pages.asset(params.file);
    if (!answer) throw fail("asset_not_found");
    return answer;
  },
});
