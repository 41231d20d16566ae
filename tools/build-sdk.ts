// node tools/build-sdk.ts [OUT]   Builds the package @keyrack/sdk into OUT (dist/sdk): the verifier library alone, as
// ES modules and as CommonJS, with types for both. Each format has a folder with a package.json that declares it, so
// that one set of type files serves both.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Metafile } from "esbuild";
import { VERSION } from "../src/platform/version.ts";
import { readDocument } from "./release/links.ts";
import { withVersion } from "./sea/bundle.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const ADAPTERS = ["express", "fastify", "hono", "h3", "node", "fetch"] as const;
/**
 * Packages that the types of adapters name, for installers that let a package see only what it declares. Optional and
 * of any version: an application has those that it uses.
 */
const TYPES_OF = ["@types/express", "fastify", "hono"];
const TARGET = "es2022";
/** Name of the entry point → its source. */
const ENTRIES: Record<string, string> = {
  index: "src/sdk/index.ts",
  ...Object.fromEntries(ADAPTERS.map((name) => [name, `src/sdk/adapters/${name}.ts`])),
};

/**
 * The scripts without types and manifest. The CommonJS files are made of the ES modules one by one, because only those
 * can share chunks: as bundles of their own, every adapter would hold its copy.
 */
export async function bundleSdk(out: string, version = VERSION): Promise<Metafile> {
  const esm = join(out, "esm");
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: ENTRIES,
    outdir: esm,
    bundle: true,
    splitting: true,
    chunkNames: "chunks/[name]-[hash]",
    format: "esm",
    platform: "neutral",
    target: TARGET,
    minifySyntax: true,
    metafile: true,
    plugins: [withVersion(version)],
    logLevel: "warning",
  });
  // Anything not bundled would be a dependency, and there are none.
  const outside = Object.values(metafile.outputs).flatMap(({ imports }) => imports.filter(({ external }) => external));
  if (outside.length > 0) throw new Error(`the library imports ${outside.map(({ path }) => path).join(", ")}`);
  const entryPoints = Object.keys(metafile.outputs).map((file) => join(root, file));
  await build({ entryPoints, outbase: esm, outdir: join(out, "cjs"), format: "cjs", target: TARGET });
  return metafile;
}

export async function buildSdk(out: string, version = VERSION): Promise<Metafile> {
  rmSync(out, { recursive: true, force: true });
  const metafile = await bundleSdk(out, version);
  writeFileSync(join(out, "esm/package.json"), '{ "type": "module" }\n');
  writeFileSync(join(out, "cjs/package.json"), '{ "type": "commonjs" }\n');
  types(join(out, "esm/types"));
  cpSync(join(out, "esm/types"), join(out, "cjs/types"), { recursive: true });
  writeFileSync(join(out, "package.json"), `${JSON.stringify(manifest(version), null, 2)}\n`);
  writeFileSync(join(out, "README.md"), readDocument("docs/sdk.md", version));
  cpSync(join(root, "LICENSE"), join(out, "LICENSE"));
  return metafile;
}

function types(outDir: string): void {
  const config = join(outDir, "tsconfig.json");
  mkdirSync(outDir, { recursive: true });
  const compilerOptions = {
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    outDir,
    rootDir: join(root, "src"),
    typeRoots: [join(root, "node_modules/@types")],
  };
  const files = [...Object.values(ENTRIES), "src/globals.d.ts"].map((file) => join(root, file));
  writeFileSync(config, JSON.stringify({ extends: join(root, "tsconfig.json"), compilerOptions, include: [], files }));
  const { status, stdout } = spawnSync(process.execPath, [tscPath(), "-p", config], { encoding: "utf8", cwd: root });
  rmSync(config);
  if (status !== 0)
    throw new Error(`the types could not be built:
${stdout}`);
  const used = new Set<string>();
  for (const source of Object.values(ENTRIES))
    addImported(used, join(outDir, source.replace(/^src\/(.*)\.ts$/, "$1.d.ts")));
  for (const name of readdirSync(outDir, { recursive: true, encoding: "utf8" })) {
    const file = join(outDir, name);
    if (used.has(file)) pointAtScripts(file);
    else if (file.endsWith(".d.ts")) rmSync(file); // the compiler writes the types of internals too
  }
}

const IMPORTED = /(?:from|import\(|import)\s*"(\.[^"]*)\.ts"/g;

/** Adds a type file and those that it imports. */
function addImported(used: Set<string>, file: string): void {
  if (used.size === used.add(file).size) return;
  for (const [, path = ""] of readFileSync(file, "utf8").matchAll(IMPORTED))
    addImported(used, resolve(file, "..", `${path}.d.ts`));
}

/** The sources import each other by `.ts`; the package has only `.js` and `.d.ts`. */
function pointAtScripts(file: string): void {
  const text = readFileSync(file, "utf8");
  writeFileSync(file, text.replace(/((?:from|import\()\s*"\.[^"]*)\.ts"/g, '$1.js"'));
}

function tscPath(): string {
  const pkg = fileURLToPath(import.meta.resolve("typescript/package.json"));
  const { bin } = JSON.parse(readFileSync(pkg, "utf8")) as { bin: { tsc: string } };
  return resolve(pkg, "..", bin.tsc);
}

function manifest(version: string): object {
  const own = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Record<string, unknown>;
  const { license, homepage, repository, bugs } = own;
  const entry = (name: string) => {
    const typed = (form: string) => `./${form}/types/sdk/${name === "index" ? name : `adapters/${name}`}.d.ts`;
    return {
      import: { types: typed("esm"), default: `./esm/${name}.js` },
      require: { types: typed("cjs"), default: `./cjs/${name}.js` },
    };
  };
  return {
    name: "@keyrack/sdk",
    version,
    description: "Verifies Keyrack API keys in your own process: no network on the request path, no dependencies.",
    keywords: ["api-keys", "authentication", "rate-limiting", "idempotency", "middleware", "keyrack"],
    license,
    homepage,
    repository,
    bugs,
    type: "module",
    sideEffects: false,
    engines: { node: ">=20" },
    peerDependencies: Object.fromEntries(TYPES_OF.map((name) => [name, "*"])),
    peerDependenciesMeta: Object.fromEntries(TYPES_OF.map((name) => [name, { optional: true }])),
    exports: {
      ...Object.fromEntries(Object.keys(ENTRIES).map((name) => [name === "index" ? "." : `./${name}`, entry(name)])),
      "./package.json": "./package.json",
    },
    main: "./cjs/index.js",
    types: "./esm/types/sdk/index.d.ts",
    files: ["esm", "cjs"],
    publishConfig: { access: "public", provenance: true },
  };
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const out = resolve(process.argv[2] ?? join(root, "dist/sdk"));
  await buildSdk(out);
  console.log(`@keyrack/sdk is in ${out}`);
}
