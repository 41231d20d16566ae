// The built web pages: an index that names its assets, and assets whose names contain their hash. Only names that the
// build wrote are served, so no path from a request reaches the disk.
import { hash } from "node:crypto";
import { listFiles, readBytes, readText } from "../platform/packaged-files.ts";
import { failures } from "../kernel/errors.ts";
import { HttpResponse } from "./response.ts";

const TYPES: Record<string, string> = { js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8" };

/** No inline script or style, no markup from strings, no framing. */
export const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; " +
  "frame-ancestors 'none'; require-trusted-types-for 'script'";

type Built = { index: HttpResponse; build: string; assets: ReadonlyMap<string, HttpResponse> };

function load(folder: string): Built {
  const assets = listFiles(`${folder}/assets`).map((name) => {
    const type = TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream";
    const headers = { "content-type": type, "cache-control": "public, max-age=31536000, immutable" };
    return [name, new HttpResponse(200, readBytes(`${folder}/assets/${name}`), headers)] as const;
  });
  const headers = { "content-type": "text/html; charset=utf-8", "content-security-policy": PAGE_POLICY };
  const index = readText(`${folder}/index.html`);
  const build = hash("sha256", index).slice(0, 12);
  return { index: new HttpResponse(200, index, headers), build, assets: new Map(assets) };
}

export type Pages = {
  /** Not cached by browsers, because it names the newest assets. */
  index(): HttpResponse;
  asset(name: string): HttpResponse | null;
  /** Changes with the assets: the index names them by their hashes. */
  build(): string;
};

/** Read on first use and memoized; until something is built, every request tries again. */
export function builtPages(folder = "dist/web"): Pages {
  let built: Built | undefined;
  const pages = (): Built | null => {
    try {
      return (built ??= load(folder));
    } catch {
      return null;
    }
  };
  return {
    index: () => pages()?.index ?? notBuilt(),
    asset: (name) => pages()?.assets.get(name) ?? null,
    build: () => pages()?.build ?? "none",
  };
}

/** Plain text, as it is read by a person in a browser. */
function notBuilt(): HttpResponse {
  const [status, , message] = failures.pages_not_built;
  return new HttpResponse(status, `${message}\n`, { "content-type": "text/plain; charset=utf-8", "retry-after": "60" });
}
