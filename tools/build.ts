// npm run build [-- --target linux-x64|linux-arm64]: the single binary dist/keyrack and the release files.
// esbuild bundles the program into one script; Node's SEA puts it and its assets into a copy of the project's own Node.
// Caution: the Node binary is stripped before the blob is injected; stripping afterwards would remove the blob.
import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build, type BuildOptions, type Plugin } from "esbuild";
import { VERSION } from "../src/platform/version.ts";
import { writeRelease } from "./release.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const at = (...parts: string[]): string => join(root, ...parts);
const FUSE = "NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2";
const NODE_VERSION = process.versions.node;

export const targets = {
  "linux-x64": { strip: "x86_64-linux-gnu-strip", argon2: "linux-x64/argon2.glibc.node" },
  "linux-arm64": { strip: "aarch64-linux-gnu-strip", argon2: "linux-arm64/argon2.armv8.glibc.node" },
} as const;
export type Target = keyof typeof targets;

const here = `${process.platform}-${process.arch}`;

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

const common: BuildOptions = {
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node24",
  logLevel: "warning",
  external: ["pg-native"],
  alias: { "node-gyp-build": at("tools/sea/node-gyp-build.cjs") },
  // CJS has no import.meta; no code in the binary resolves files against it.
  define: { "import.meta.url": "keyrackUrl" },
  // Minified for a faster start. Lines stay short, because an uncaught error prints its line.
  minifyWhitespace: true,
  minifySyntax: true,
  lineLimit: 160,
  plugins: [shakeableZod],
  banner: { js: 'const keyrackUrl = require("node:url").pathToFileURL(process.execPath).href;' },
};

function* filesUnder(folder: string): Generator<string> {
  if (!existsSync(at(folder))) return;
  for (const entry of readdirSync(at(folder), { withFileTypes: true }).toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    if (entry.isDirectory()) yield* filesUnder(join(folder, entry.name));
    else yield join(folder, entry.name);
  }
}

async function bundle(work: string): Promise<{ main: string; workers: Record<string, string> }> {
  const main = join(work, "main.js");
  await build({ ...common, entryPoints: [at("src/cli/main.ts")], outfile: main });
  const workers: Record<string, string> = {};
  for (const path of filesUnder("src")) {
    if (!path.endsWith(".worker.ts")) continue;
    const asset = `workers/${relative("src", path).replace(/\.ts$/, ".js")}`;
    workers[asset] = join(work, asset);
    await build({ ...common, entryPoints: [at(path)], outfile: join(work, asset) });
  }
  return { main, workers };
}

/** Every file that is read at run time, by the name it is read with. */
function assetsOf(target: Target, workers: Record<string, string>, work: string): Record<string, string> {
  const shipped = [...filesUnder("migrations"), ...filesUnder("data"), ...filesUnder("dist/web")];
  if (existsSync(at("src/cli/api/commands.gen.json"))) shipped.push("src/cli/api/commands.gen.json");
  const index = join(work, "index.json");
  writeFileSync(index, JSON.stringify(shipped));
  return {
    ...Object.fromEntries(shipped.map((path) => [path, at(path)])),
    ...workers,
    "index.json": index,
    "native/better-sqlite3.node": at(`node_modules/better-sqlite3/prebuilds/${target}.node`),
    "native/argon2.node": at(`node_modules/argon2/prebuilds/${targets[target].argon2}`),
  };
}

/** The Node binary to use: the installed one, or the target's package from the registry. */
function baseNode(target: Target, work: string): string {
  const installed = at(`node_modules/node-${target}/bin/node`);
  if (existsSync(installed)) return installed;
  const name = `node-${target}@${NODE_VERSION}`;
  console.error(`fetching ${name} …`);
  const packed = execFileSync("npm", ["pack", "--silent", "--pack-destination", work, name], { cwd: work });
  execFileSync("tar", ["-xzf", join(work, packed.toString().trim().split("\n").at(-1) ?? "")], { cwd: work });
  return join(work, "package/bin/node");
}

function stripBase(target: Target, binary: string): void {
  const own = target === here ? ["strip"] : [];
  for (const tool of [...own, targets[target].strip, "llvm-strip"]) {
    const { status, error } = spawnSync(tool, [binary], { stdio: ["ignore", "ignore", "ignore"] });
    if (status === 0) return;
    if (!error) break;
  }
  console.error(`no strip for ${target} on this machine: the binary keeps its symbols and is some 20 MB larger`);
}

async function makeBinary(target: Target, out: string, work: string): Promise<void> {
  const { main, workers } = await bundle(work);
  const config = join(work, "sea.json");
  const blob = join(work, "keyrack.blob");
  writeFileSync(
    config,
    JSON.stringify({
      main,
      output: blob,
      assets: assetsOf(target, workers, work),
      disableExperimentalSEAWarning: true,
      useCodeCache: target === here,
      execArgvExtension: "none", // else NODE_OPTIONS could run scripts inside the binary
    }),
  );
  execFileSync(process.execPath, ["--experimental-sea-config", config], { stdio: ["ignore", "ignore", "inherit"] });
  copyFileSync(baseNode(target, work), out);
  chmodSync(out, 0o755);
  stripBase(target, out);
  const postject = at("node_modules/postject/dist/cli.js");
  const args = [postject, out, "NODE_SEA_BLOB", blob, "--sentinel-fuse", FUSE];
  const { status, stderr } = spawnSync(process.execPath, args, { stdio: ["ignore", "ignore", "pipe"] });
  if (status !== 0) throw new Error(`postject failed: ${stderr.toString()}`);
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { target: { type: "string", default: here }, out: { type: "string" } } });
  if (!(values.target in targets)) throw new Error(`--target is one of ${Object.keys(targets).join(", ")}`);
  const target = values.target as Target;
  const out = values.out ?? at(target === here ? "dist/keyrack" : `dist/${target}/keyrack`);
  mkdirSync(join(out, ".."), { recursive: true });
  const work = mkdtempSync(join(tmpdir(), "keyrack-build-"));
  try {
    const fresh = `${out}.new`; // a running binary cannot be overwritten, but it can be replaced
    await makeBinary(target, fresh, work);
    execFileSync("mv", ["-f", fresh, out]);
    console.log(`${relative(root, out)}  ${(statSync(out).size / 2 ** 20).toFixed(1)} MiB  ${target}  ${VERSION}`);
    if (target === here) console.log(`runs: keyrack ${execFileSync(out, ["version"]).toString().trim()}`);
    for (const path of writeRelease(target, out)) console.log(relative(root, path));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main();
