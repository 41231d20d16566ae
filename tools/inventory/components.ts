// What is inside the binary and the packages, read from esbuild's metafiles: the one list behind the licence notices
// and the bill of materials.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Metafile } from "esbuild";
import { isAllowed, licenceText } from "./licences.ts";
import { lockedSha512 } from "./lock.ts";

export type Component = {
  name: string;
  version: string;
  /** An SPDX expression. */
  licence: string;
  text: string;
  purl: string;
  /** Of the archive it comes in; null for Node, which has one for each platform. */
  sha512: string | null;
  /** The purl of the package that contains it, if that is another one. */
  inside?: string;
};

type Manifest = { name: string; version: string; license?: string | { type?: string } };

const npmUrl = (name: string, version: string): string => `pkg:npm/${name.replace("@", "%40")}@${version}`;
const byName = (a: Component, b: Component): number => (`${a.name}@${a.version}` < `${b.name}@${b.version}` ? -1 : 1);

/** The folders, from the root, of the packages that have code in an output. */
function packageFolders(metafiles: readonly Metafile[]): string[] {
  const inputs = metafiles.flatMap(({ outputs }) =>
    Object.values(outputs).flatMap(({ inputs }) =>
      Object.entries(inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [path] : [])),
    ),
  );
  const folders = inputs.map((path) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(path)?.[0]);
  return [...new Set(folders.filter((folder) => folder !== undefined))].toSorted();
}

/** Throws if one has no licence text, or a licence that is not allowed. */
export function bundledPackages(root: string, metafiles: readonly Metafile[]): Component[] {
  const found = packageFolders(metafiles).map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8")) as Manifest;
    const licence = (typeof license === "string" ? license : license?.type) ?? "none";
    if (!isAllowed(licence))
      throw new Error(`${name} ${version} is bundled, and its licence is not allowed: ${licence}`);
    const text = licenceText(join(root, folder));
    if (text === null) throw new Error(`${name} ${version} is bundled without a licence text`);
    return { name, version, licence, text, purl: npmUrl(name, version), sha512: lockedSha512(root, folder) };
  });
  return found.toSorted(byName);
}

/** The C libraries inside the native addons. Their packages must be among the bundled ones. */
function nativeLibraries(root: string, packages: readonly Component[]): Component[] {
  const read = (path: string): string => readFileSync(join(root, "node_modules", path), "utf8");
  const inPackage = (name: string): { sha512: string | null; inside: string } => {
    const found = packages.find((each) => each.name === name);
    if (!found) throw new Error(`${name} is not bundled, but its native library is`);
    return { sha512: found.sha512, inside: found.purl };
  };
  const sqlite = read("better-sqlite3/deps/sqlite3/sqlite3.h");
  const sqliteVersion = /^#define SQLITE_VERSION\s+"([^"]+)"/m.exec(sqlite)?.[1] ?? "";
  const blessing = /The author disclaims[\s\S]*?(?=\n\*{3})/.exec(sqlite)?.[0].replace(/^\*\* ?/gm, "") ?? "";
  const argon2Version = /^# (\d{8})/m.exec(read("argon2/argon2/CHANGELOG.md"))?.[1] ?? "";
  if (sqliteVersion === "" || blessing === "" || argon2Version === "")
    throw new Error("the version or the licence of SQLite or of Argon2 is not where it was");
  return [
    {
      name: "SQLite",
      version: sqliteVersion,
      licence: "blessing",
      text: blessing.trim(),
      purl: `pkg:generic/sqlite@${sqliteVersion}`,
      ...inPackage("better-sqlite3"),
    },
    {
      name: "Argon2 reference implementation",
      version: argon2Version,
      licence: "CC0-1.0 OR Apache-2.0",
      text: read("argon2/argon2/LICENSE").trim(),
      purl: `pkg:generic/phc-winner-argon2@${argon2Version}`,
      ...inPackage("argon2"),
    },
  ];
}

/** The Node that this runs on, which is the one inside the binary. */
function nodeRuntime(root: string): Component {
  const version = process.versions.node;
  return {
    name: "Node.js",
    version,
    licence: "MIT",
    text: readFileSync(join(root, `node_modules/node-${process.platform}-${process.arch}/LICENSE`), "utf8").trim(),
    purl: `pkg:generic/node@${version}`,
    sha512: null,
  };
}

/** Everything inside the binary. */
export function binaryComponents(root: string, metafiles: readonly Metafile[]): Component[] {
  const packages = bundledPackages(root, metafiles);
  return [...packages, ...nativeLibraries(root, packages), nodeRuntime(root)];
}
