// Builds what browsers load into dist/web. Runs in `prepare`, so a checkout is complete after `npm ci`.
// `--size` also prints the gzipped sizes and fails when one exceeds its bound, as a test does (test/house/web.test.ts).
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { build, transform, type Metafile, type Plugin } from "esbuild";
import { toAscii } from "./ascii.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

const PORTAL = "src/web/portal/portal.ts";

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
  charset: "ascii",
  legalComments: "none",
  logLevel: "warning",
  metafile: true,
} as const;

const gzip = (bytes: Uint8Array): Buffer => gzipSync(bytes, { level: 9 });
const brotli = (bytes: Uint8Array): Buffer =>
  brotliCompressSync(bytes, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    },
  });

/** Browsers start it sooner. bench: dashboard/login */
const escapeScript = (path: string): void => writeFileSync(path, toAscii(readFileSync(path, "utf8")));

const DASHBOARD = "src/web/dashboard";

/** The dashboard: script, style sheet and icon under names with their hash, and a page that refers to them. */
async function buildDashboard(out: string): Promise<Metafile> {
  const assets = join(out, "assets");
  rmSync(assets, { recursive: true, force: true });
  const { metafile } = await build({
    ...common,
    // Calls of h() are 1 kB smaller than those of the automatic runtime, for which the types are checked.
    jsx: "transform",
    jsxFactory: "h",
    jsxFragment: "Fragment",
    inject: ["node_modules/preact/dist/preact.module.js"],
    tsconfigRaw: {},
    loader: { ".svg": "copy" },
    // The portal's script is served by the server and loaded when its preview is opened.
    external: ["./embed/portal.js"],
    entryPoints: ["main.tsx", "styles/main.css", "icon.svg"].map((name) => join(DASHBOARD, name)),
    outdir: assets,
    outbase: DASHBOARD,
    entryNames: "[name]-[hash]",
  });
  let page = readFileSync(join(root, DASHBOARD, "index.html"), "utf8");
  for (const name of readdirSync(assets)) {
    page = page.replace(`{${name.replace(/-[A-Z0-9]{8}\./, ".")}}`, name);
    if (name.endsWith(".js")) escapeScript(join(assets, name));
    const content = readFileSync(join(assets, name));
    writeFileSync(join(assets, `${name}.gz`), gzip(content));
    writeFileSync(join(assets, `${name}.br`), brotli(content));
  }
  // The server fills in the build.
  if (page.replace("{build}", "").includes("{")) throw new Error("the page names an asset that was not built");
  writeFileSync(join(out, "index.html"), page);
  return metafile;
}

/** Returns what the bundles contain. */
export async function buildWeb(out: string): Promise<Metafile[]> {
  mkdirSync(out, { recursive: true });
  return Promise.all([buildPortal(join(out, "portal.js")), buildDashboard(out)]);
}

async function buildPortal(outfile: string): Promise<Metafile> {
  const { metafile } = await build({ ...common, entryPoints: [PORTAL], outfile, plugins: [cssText] });
  escapeScript(outfile);
  return metafile;
}

/** The gzipped bytes of what is built, and their bounds. */
export function webSizes(out = join(root, "dist/web")): { name: string; bytes: number; max: number }[] {
  const assets = join(out, "assets");
  const gzipped = readdirSync(assets).filter((name) => /\.(js|css)\.gz$/.test(name));
  const dashboard = gzipped.reduce((sum, name) => sum + statSync(join(assets, name)).size, 0);
  return [
    { name: "portal.js", bytes: gzip(readFileSync(join(out, "portal.js"))).length, max: 20_000 },
    { name: "dashboard", bytes: dashboard, max: 100_000 },
  ];
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  await buildWeb(join(root, "dist/web"));
  if (process.argv.includes("--size"))
    for (const { name, bytes, max } of webSizes()) {
      console.log(`${name}  ${bytes} bytes gzipped of at most ${max}`);
      if (bytes > max) process.exitCode = 1;
    }
}
