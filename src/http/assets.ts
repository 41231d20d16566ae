// The built dashboard: an index that names its assets, and assets whose names contain their hash. Only names that the
// build wrote are served, so no path from a request reaches the disk.
import { hash } from "node:crypto";
import { listFiles, readBytes, readText } from "../platform/packaged-files.ts";
import { failures } from "../kernel/errors.ts";
import { HttpResponse } from "./response.ts";

const TYPES: Record<string, string> = {
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

/** No inline script or style, no markup from strings, no framing, no Trusted Types policy that could allow any. */
const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
  "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/** Content codings that the build stores, best first, and the ending of their files. */
const CODINGS = [
  ["br", ".br"],
  ["gzip", ".gz"],
] as const;

/** An asset by its coding; "identity" is always there. */
type Asset = ReadonlyMap<string, HttpResponse>;
type Built = { index: HttpResponse; build: string; assets: ReadonlyMap<string, Asset> };

function loadAsset(folder: string, name: string, files: ReadonlySet<string>): Asset {
  const type = TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream";
  const headers = {
    "content-type": type,
    "cache-control": "public, max-age=31536000, immutable",
    vary: "accept-encoding",
  };
  const asset = new Map([["identity", new HttpResponse(200, readBytes(`${folder}/${name}`), headers)]]);
  for (const [coding, ending] of CODINGS) {
    if (!files.has(name + ending)) continue;
    const bytes = readBytes(`${folder}/${name}${ending}`);
    asset.set(coding, new HttpResponse(200, bytes, { ...headers, "content-encoding": coding }));
  }
  return asset;
}

function load(folder: string): Built {
  const files = new Set(listFiles(`${folder}/assets`));
  const names = [...files].filter((name) => !CODINGS.some(([, ending]) => name.endsWith(ending)));
  const assets = names.map((name) => [name, loadAsset(`${folder}/assets`, name, files)] as const);
  const headers = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": PAGE_POLICY,
    "cross-origin-opener-policy": "same-origin",
  };
  const template = readText(`${folder}/index.html`);
  const build = hash("sha256", template).slice(0, 12);
  // A page knows its own build, to notice a newer one.
  const index = new HttpResponse(200, template.replace("{build}", build), headers);
  return { index, build, assets: new Map(assets) };
}

/** The weights that `Accept-Encoding` gives to codings. */
function weightsOf(accepted: string): ReadonlyMap<string, number> {
  return new Map(
    accepted.split(",").map((part) => {
      const [name = "", ...parameters] = part.split(";").map((text) => text.trim().toLowerCase());
      const q = parameters.find((text) => text.startsWith("q="));
      return [name, q === undefined ? 1 : Number(q.slice(2)) || 0];
    }),
  );
}

/** The coding that the client prefers; identity if it accepts none of ours, or names it with a larger weight. */
function chooseCoding(asset: Asset, accepted: string): HttpResponse | null {
  const weights = weightsOf(accepted);
  let best: readonly [coding: string, weight: number] = ["identity", 0];
  for (const [coding] of CODINGS) {
    const weight = weights.get(coding) ?? weights.get("*") ?? 0;
    if (asset.has(coding) && weight > best[1]) best = [coding, weight];
  }
  return asset.get((weights.get("identity") ?? 0) > best[1] ? "identity" : best[0]) ?? null;
}

type Pages = {
  /** Not cached by browsers, because it names the newest assets. */
  index(): HttpResponse;
  /** `accepted`: the request's `Accept-Encoding`. */
  asset(name: string, accepted?: string): HttpResponse | null;
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
    asset: (name, accepted = "") => {
      const asset = pages()?.assets.get(name);
      return asset ? chooseCoding(asset, accepted) : null;
    },
    build: () => pages()?.build ?? "none",
  };
}

/** Plain text, as it is read by a person in a browser. */
function notBuilt(): HttpResponse {
  const [status, , message] = failures.pages_not_built;
  return new HttpResponse(status, `${message}\n`, { "content-type": "text/plain; charset=utf-8", "retry-after": "60" });
}
