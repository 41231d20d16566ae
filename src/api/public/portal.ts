// The portal's script. Pages of any origin may load it; what it can do depends on their token.
import { hash } from "node:crypto";
import { z } from "zod";
import { readText } from "../../platform/packaged-files.ts";
import { endpoint } from "../../http/endpoint.ts";
import { matchesEtag } from "../../http/request.ts";
import { HttpResponse } from "../../http/response.ts";
import { fail } from "../../kernel/errors.ts";

const FILE = "dist/web/portal.js";

type Script = { text: string; etag: string };
let loaded: Script | undefined;

function load(): Script {
  if (loaded) return loaded;
  const text = readText(FILE);
  loaded = { text, etag: `"${hash("sha256", text).slice(0, 32)}"` };
  return loaded;
}

export const portalScript = endpoint("GET /embed/portal.js", {
  summary: "The script that defines the <keyrack-portal> element.",
  access: "public",
  cors: "any",
  looseQuery: true,
  produces: ["text/javascript"],
  output: z.string(),
  failures: ["portal_not_built"],
  handle: (_ctx, { request }) => {
    let script: Script;
    try {
      script = load();
    } catch {
      throw fail("portal_not_built");
    }
    const headers = { "cache-control": "public, max-age=300", etag: script.etag };
    if (matchesEtag(request.headers, script.etag)) return new HttpResponse(304, null, headers);
    return new HttpResponse(200, script.text, { ...headers, "content-type": "text/javascript; charset=utf-8" });
  },
});
