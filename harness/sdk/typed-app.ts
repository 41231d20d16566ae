// An app that has the library installed from its package, and compiles against its types.

import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { root } from "../repository.ts";
import { installSdk, type PackedSdk } from "./package.ts";

const run = promisify(execFile);

export const ENTRY_POINTS = ["express", "fastify", "hono", "h3", "node", "fetch"];

/** Imports every entry point, and does not compile if one has no types. */
function everyEntry(from: (path: string) => string): string {
  const lines = ENTRY_POINTS.map(
    (name) => `import * as ${name} ${from(`@keyrack/sdk/${name}`)};
export const ${name}Typed: 0 extends 1 & typeof ${name}.protect ? never : true = true;`,
  );
  return lines.join("\n");
}

/** In `folder`/app. */
export function makeTypedApp(folder: string): PackedSdk & { app: string } {
  const app = join(folder, "app");
  const packed = installSdk(app);
  const source = join(import.meta.dirname, "installed");
  // Files for the compiler end in .txt here, because this repository's compiler would read them without the package.
  for (const name of readdirSync(source)) cpSync(join(source, name), join(app, name.replace(/\.txt$/, "")));
  // The types of these adapters name the framework's own, which an app has installed.
  mkdirSync(join(folder, "node_modules/@types"), { recursive: true });
  for (const name of ["fastify", "hono", "@types/express"])
    symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name));
  writeFileSync(
    join(app, "every.mts"),
    everyEntry((path) => `from "${path}"`),
  );
  writeFileSync(join(app, "every.cts"), everyEntry((path) => `= require("${path}")`).replaceAll("* as ", ""));
  return { ...packed, app };
}

/** Its files in a format. */
export const typedSources = (format: string): string[] => [`typed.${format}`, `every.${format}`];

/** What the compiler says; empty if nothing. */
export async function typeErrors(app: string, resolution: string[], files: string[]): Promise<string> {
  const options = ["--noEmit", "--strict", "--target", "es2024", "--types", "node"];
  const types = ["--typeRoots", join(root, "node_modules/@types")];
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const args = [tsc, ...options, ...types, ...resolution, ...files];
  const done = run(process.execPath, args, { cwd: app }).then(({ stdout }) => stdout);
  return done.catch((error: Error & { stdout: string }) => error.stdout || error.message);
}
