// Builds what browsers load into dist/web. Runs in `prepare`, so a checkout is complete after `npm ci`.
// `--size` also prints the gzipped sizes and fails when one exceeds its bound.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build, transform, type BuildOptions, type Plugin } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));

type Entry = { out: string; from: string; gzipMax: number; options?: BuildOptions };

const entries: Entry[] = [{ out: "portal.js", from: "src/web/portal/portal.ts", gzipMax: 20_000 }];

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

async function buildEntry({ out, from, options }: Entry): Promise<void> {
  await build({
    entryPoints: [join(root, from)],
    outfile: join(root, "dist/web", out),
    bundle: true,
    format: "esm",
    target: ["es2022"],
    minify: true,
    charset: "utf8",
    legalComments: "none",
    logLevel: "warning",
    plugins: [cssText],
    ...options,
  });
}

const PAGES = "src/web/dashboard";
const PAGES_GZIP_MAX = 12_000;

/** The dashboard pages: script and style sheet under names with their hash, and a page that refers to them. */
async function buildPages(): Promise<number> {
  const assets = join(root, "dist/web/assets");
  rmSync(assets, { recursive: true, force: true });
  const { metafile } = await build({
    entryPoints: [join(root, PAGES, "main.ts"), join(root, PAGES, "styles.css")],
    outdir: assets,
    entryNames: "[name]-[hash]",
    metafile: true,
    bundle: true,
    format: "esm",
    target: ["es2022"],
    minify: true,
    charset: "utf8",
    legalComments: "none",
    logLevel: "warning",
  });
  let page = readFileSync(join(root, PAGES, "index.html"), "utf8");
  let bytes = 0;
  for (const path of Object.keys(metafile.outputs)) {
    const name = basename(path);
    page = page.replace(`{${name.replace(/-[A-Z0-9]{8}\./, ".")}}`, name);
    bytes += gzipSync(readFileSync(join(assets, name)), { level: 9 }).length;
  }
  if (page.includes("{")) throw new Error("the page names an asset that was not built");
  writeFileSync(join(root, "dist/web/index.html"), page);
  return bytes;
}

function report(name: string, bytes: number, max: number): void {
  if (!process.argv.includes("--size")) return;
  console.log(`${name}  ${bytes} bytes gzipped of at most ${max}`);
  if (bytes > max) process.exitCode = 1;
}

mkdirSync(join(root, "dist/web"), { recursive: true });
for (const entry of entries) {
  await buildEntry(entry);
  const bytes = gzipSync(readFileSync(join(root, "dist/web", entry.out)), { level: 9 }).length;
  report(entry.out, bytes, entry.gzipMax);
}
report("pages", await buildPages(), PAGES_GZIP_MAX);
