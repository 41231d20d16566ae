// Everything inside a binary that is the same on every platform: the bundled scripts, the files that are read at run
// time, and what the binary knows about its own build.
import { mkdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import type { Metafile } from "esbuild";
import { bundleSdk } from "../build-sdk.ts";
import { buildWeb } from "../build-web.ts";
import type { Identity } from "../release/source.ts";
import { binaryComponents, type Component } from "../inventory/components.ts";
import { noticesText } from "../inventory/notices.ts";
import { bundleProgram, filesUnder } from "./bundle.ts";
import { root } from "./targets.ts";

export type Program = {
  /** Holds `main.js`. */
  folder: string;
  /** The name that a file is read by at run time → its path. */
  assets: Record<string, string>;
  components: Component[];
  /** The path of THIRD_PARTY_NOTICES.txt. */
  notices: string;
};

/** `keysFile` lists the keys whose release signatures the binary accepts. */
export async function prepareProgram(folder: string, build: Identity, keysFile: string): Promise<Program> {
  mkdirSync(folder, { recursive: true });
  // Built here and not read from dist, which may be older than the sources.
  const web = join(folder, "web");
  const [bundle, builtWeb, sdk] = await Promise.all([
    bundleProgram(folder, build.version),
    buildWeb(web),
    bundleSdk(join(folder, "sdk")),
  ]);
  const metafiles: Metafile[] = [...bundle.metafiles, ...builtWeb, sdk];
  const components = binaryComponents(root, metafiles);
  const made = (name: string, text: string): string => {
    const path = join(folder, name);
    writeFileSync(path, text);
    return path;
  };
  const notices = made("THIRD_PARTY_NOTICES.txt", noticesText(components));
  const files = Object.fromEntries([
    ...[...filesUnder("migrations"), ...filesUnder("data"), "src/cli/api/commands.gen.json"].map((path) => [
      path,
      join(root, path),
    ]),
    ...filesUnder(web).map((path) => [`dist/web/${relative(web, path)}`, path]),
  ]) as Record<string, string>;
  const assets = {
    ...files,
    ...bundle.workers,
    "release-keys": keysFile,
    "index.json": made("index.json", JSON.stringify(Object.keys(files))),
    "build.json": made("build.json", JSON.stringify({ commit: build.commit, release: build.release })),
    "THIRD_PARTY_NOTICES.txt": notices,
  };
  return { folder, assets, components, notices };
}
