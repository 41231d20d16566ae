// Bundles the program and its worker threads with esbuild: one CommonJS script each, for a binary the same bytes in any
// folder.
import { readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, isAbsolute, join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { build, type BuildOptions, type Metafile, type Plugin } from "esbuild";
import { toAscii } from "../ascii.ts";
import { root } from "./targets.ts";

/** The object `z` pulls in all of zod with its fifty locales; the namespace import only what is used. */
const shakeableZod: Plugin = {
  name: "shakeable-zod",
  setup(plugin) {
    plugin.onLoad({ filter: /\/src\/(?:api|http)\/.*\.ts$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replace(/^import \{ z \} from "zod";/m, 'import * as z from "zod";'),
      loader: "ts",
    }));
  },
};

/** Gives the module of the version another one than the last release's. */
export const withVersion = (version: string): Plugin => ({
  name: "version",
  setup(plugin) {
    plugin.onLoad({ filter: /\/src\/(?:platform|sdk)\/version\.ts$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replace(/(?<=VERSION = )"[^"]+"/, JSON.stringify(version)),
      loader: "ts",
    }));
  },
});

const common = {
  absWorkingDir: root,
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node24",
  logLevel: "warning",
  external: ["pg-native"],
  alias: { "node-gyp-build": join(root, "tools/sea/node-gyp-build.cjs") },
  // CJS has no import.meta; no code in the binary resolves files against it.
  define: { "import.meta.url": "keyrackUrl" },
  // Minified for a faster start. Lines stay short, because an uncaught error prints its line.
  minifyWhitespace: true,
  minifySyntax: true,
  lineLimit: 160,
  metafile: true,
  plugins: [shakeableZod],
  banner: { js: 'const keyrackUrl = require("node:url").pathToFileURL(process.execPath).href;' },
} satisfies BuildOptions;

type Bundle = { workers: Record<string, string>; metafiles: Metafile[] };

/** Paths of the files below a folder, in the order of their names. A relative folder is one of the repository. */
export function filesUnder(folder: string): string[] {
  const entries = readdirSync(resolve(root, folder), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  return files.map((path) => (isAbsolute(folder) ? path : relative(root, path))).toSorted();
}

const workerSources = (checkout: string): string[] =>
  filesUnder(join(checkout, "src"))
    .filter((path) => path.endsWith(".worker.ts"))
    .map((path) => relative(checkout, path));

/** Writes `main.js` and the workers into a folder. The workers' keys are the names they are loaded by. */
export async function bundleProgram(folder: string, version: string): Promise<Bundle> {
  const plugins = [...common.plugins, withVersion(version)];
  const bundle = async (entry: string, outfile: string): Promise<Metafile> => {
    const { metafile } = await build({ ...common, plugins, entryPoints: [entry], outfile });
    writeFileSync(outfile, toAscii(readFileSync(outfile, "utf8")));
    return metafile;
  };
  const sources = workerSources(root);
  const assetOf = (source: string): string => `workers/${relative("src", source).replace(/\.ts$/, ".js")}`;
  const metafiles = await Promise.all([
    bundle("src/cli/main.ts", join(folder, "main.js")),
    ...sources.map((source) => bundle(source, join(folder, assetOf(source)))),
  ]);
  const workers = Object.fromEntries(sources.map((source) => [assetOf(source), join(folder, assetOf(source))]));
  return { workers, metafiles };
}

/** How a checkout finds the source of a worker thread (src/platform/packaged-files.ts). */
const WORKER_FILE = "new URL(`../${path}`, import.meta.url)";

/** Lets the program start the worker threads bundled beside it. */
const bundledWorkers = (folder: string): Plugin => ({
  name: "bundled-workers",
  setup(plugin) {
    plugin.onLoad({ filter: /\/src\/platform\/packaged-files\.ts$/ }, ({ path }) => {
      const source = readFileSync(path, "utf8");
      const base = JSON.stringify(pathToFileURL(`${folder}/`).href);
      const contents = source.replace(WORKER_FILE, () => `new URL(\`\${path}\`.replace(/ts$/, "cjs"), ${base})`);
      if (contents === source) throw new Error(`${path} finds worker threads in another way`);
      return { contents, loader: "ts" };
    });
  },
});

/**
 * Writes the program of a checkout, with its worker threads beside it: it finds the checkout's files from src/platform,
 * and native addons in its node_modules. The file appears at once, because another process may be looking for it.
 */
export async function bundleCheckout(checkout: string, file: string): Promise<void> {
  const url = pathToFileURL(join(checkout, "src/platform/program.js")).href;
  const folder = dirname(file);
  const fresh = `${file}.${process.pid}`;
  const bundle = (entry: string, outfile: string) =>
    build({
      ...common,
      absWorkingDir: checkout,
      external: [...common.external, "better-sqlite3", "argon2"],
      banner: { js: `const keyrackUrl = ${JSON.stringify(url)};` },
      plugins: [...common.plugins, bundledWorkers(folder)],
      entryPoints: [entry],
      outfile,
    });
  const workerOf = (source: string): string => join(folder, relative("src", source).replace(/ts$/, "cjs"));
  await Promise.all([
    bundle("src/cli/main.ts", fresh),
    ...workerSources(checkout).map((source) => bundle(source, workerOf(source))),
  ]);
  renameSync(fresh, file);
}
