// Reproducible archives: order, owner, modes and times do not depend on the machine, and the compression only on Node.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { withFolders, writeTar, type Entry } from "./tar.ts";

const OWNER_MAY_EXECUTE = 0o100;

function entryOf(parent: string, path: string): Entry {
  const executable = (statSync(join(parent, path)).mode & OWNER_MAY_EXECUTE) !== 0;
  return { path, kind: "file", mode: executable ? 0o755 : 0o644, content: readFileSync(join(parent, path)) };
}

/**
 * Folders before what is in them; files of one name next to each other, because they are alike and compress well
 * together.
 */
const byName = ({ kind, path }: Entry): string => (kind === "folder" ? "" : basename(path));

/** Packs the folder `name` of `parent`. */
export async function packFolder(parent: string, name: string, archive: string, epoch: number): Promise<void> {
  const paths = readdirSync(join(parent, name), { recursive: true, encoding: "utf8" }).map((path) => join(name, path));
  const files = paths.filter((path) => statSync(join(parent, path)).isFile()).map((path) => entryOf(parent, path));
  // Level 9 saves 0.5 % for 2.6 times the CPU time.
  writeFileSync(archive, await promisify(gzip)(writeTar(withFolders(files), epoch, byName), { level: 6 }));
}
