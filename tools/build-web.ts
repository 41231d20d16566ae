// Builds what browsers load into dist/web. Runs in `prepare`, so a checkout is complete after `npm ci`.
// `--size` also prints the gzipped sizes and fails when one exceeds its bound.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build, transform, type Metafile, type Plugin } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));

const PORTAL = "src/web/portal/portal.ts";
const PORTAL_GZIP_MAX = 20_000;

/** A style sheet becomes its minified text, for constructed sheets. */
const cssText: Plugin = {
  name: "css-text",
  setup(plugin) {
    plugin.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(readFileSync(path, "utf8"), { loader: "css", minify: true });
      return { contents: code.trim(), loader: "text" };
    });
  },
};

const common = {
  absWorkingDir: root,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
} as const;

const gzippedBytes = (path: string): number => gzipSync(readFileSync(path), { level: 9 }).length;

const PAGES = "src/web/dashboard";
const PAGES_GZIP_MAX = 12_000;

/** The dashboard pages: script and style sheet under names with their hash, and a page that refers to them. */
async function buildPages(out: string): Promise<{ metafile: Metafile; bytes: number }> {
  const assets = join(out, "assets");
  rmSync(assets, { recursive: true, force: true });
  const { metafile } = await build({
    ...common,
    entryPoints: [join(PAGES, "main.ts"), join(PAGES, "styles.css")],
    outdir: assets,
    entryNames: "[name]-[hash]",
  });
  let page = readFileSync(join(root, PAGES, "index.html"), "utf8");
  let bytes = 0;
  for (const path of Object.keys(metafile.outputs)) {
    const name = basename(path);
    page = page.replace(`{${name.replace(/-[A-Z0-9]{8}\./, ".")}}`, name);
    bytes += gzippedBytes(join(assets, name));
  }
  if (page.includes("{")) throw new Error("the page names an asset that was not built");
  writeFileSync(join(out, "index.html"), page);
  return { metafile, bytes };
}

export type BuiltWeb = { metafiles: Metafile[]; portalBytes: number; pagesBytes: number };

export async function buildWeb(out: string): Promise<BuiltWeb> {
  mkdirSync(out, { recursive: true });
  const portalFile = join(out, "portal.js");
  const [portal, pages] = await Promise.all([
    build({ ...common, entryPoints: [PORTAL], outfile: portalFile, plugins: [cssText] }),
    buildPages(out),
  ]);
  const metafiles = [portal.metafile, pages.metafile];
  return { metafiles, portalBytes: gzippedBytes(portalFile), pagesBytes: pages.bytes };
}

function report(name: string, bytes: number, max: number): void {
  console.log(`${name}  ${bytes} bytes gzipped of at most ${max}`);
  if (bytes > max) process.exitCode = 1;
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const { portalBytes, pagesBytes } = await buildWeb(join(root, "dist/web"));
  if (process.argv.includes("--size")) {
    report("portal.js", portalBytes, PORTAL_GZIP_MAX);
    report("pages", pagesBytes, PAGES_GZIP_MAX);
  }
}
