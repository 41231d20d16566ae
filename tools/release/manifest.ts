// RELEASE.json, which describes a release, and SHA256SUMS, which covers every file of it.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export const MANIFEST = "RELEASE.json";
export const SUMS = "SHA256SUMS";
export const SIGNATURE = "SHA256SUMS.sig";

export type ReleaseManifest = {
  version: string;
  commit: string | null;
  source_date_epoch: number;
  node: string;
  schema: number;
  /** Null if no binary was built. */
  binutils: string | null;
  targets: Record<string, { code_cache: boolean }>;
  files: { name: string; size: number; sha256: string }[];
};

const sha256 = (path: string): string => createHash("sha256").update(readFileSync(path)).digest("hex");

export function writeManifest(folder: string, facts: Omit<ReleaseManifest, "files">): void {
  const files = readdirSync(folder)
    .toSorted()
    .map((name) => {
      const path = join(folder, name);
      return { name, size: statSync(path).size, sha256: sha256(path) };
    });
  writeFileSync(join(folder, MANIFEST), `${JSON.stringify({ ...facts, files }, null, 2)}\n`);
}

/** In the format of sha256sum, over every file in the folder. */
export function writeSums(folder: string): void {
  const names = readdirSync(folder).toSorted();
  const lines = names.map((name) => `${sha256(join(folder, name))}  ${name}\n`);
  writeFileSync(join(folder, SUMS), lines.join(""));
}
