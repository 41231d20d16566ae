// Reads the files that ship with Keyrack: migrations, worker sources, pages, word lists. In a checkout they are files;
// in the single binary they are assets inside the executable.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import * as sea from "node:sea";
import { nativePath } from "./native-addons.ts";

const root = sea.isSea() ? "" : fileURLToPath(new URL("../..", import.meta.url));

/** The text of a packaged file, by its path in the checkout ("migrations/0001_vendor.sql"). */
export function readText(path: string): string {
  return sea.isSea() ? sea.getAsset(path, "utf8") : readFileSync(root + path, "utf8");
}

export function readBytes(path: string): Uint8Array {
  return sea.isSea() ? new Uint8Array(sea.getRawAsset(path)) : readFileSync(root + path);
}

/** The names of the packaged files in one folder, sorted. */
export function listFiles(folder: string): string[] {
  if (!sea.isSea()) return readdirSync(root + folder).toSorted();
  return (JSON.parse(sea.getAsset("index.json", "utf8")) as string[])
    .filter((path) => path.startsWith(`${folder}/`))
    .map((path) => path.slice(folder.length + 1))
    .toSorted();
}

export type WorkerSource = {
  code: string | URL;
  eval: boolean;
  /** To be merged into the worker's workerData. */
  data: { native: { "better-sqlite3": string | undefined } };
};

/** How to start a worker thread whose source is `src/<path>`: by file in a checkout, from its asset in the binary. */
export function workerSource(path: string): WorkerSource {
  const data = { native: { "better-sqlite3": nativePath("better-sqlite3") } };
  if (!sea.isSea()) return { code: new URL(`../${path}`, import.meta.url), eval: false, data };
  return { code: sea.getAsset(`workers/${path.replace(/\.ts$/, ".js")}`, "utf8"), eval: true, data };
}
