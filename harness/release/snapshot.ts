// Everything in a folder as one value, to show that a refusal changed nothing.
import { createHash } from "node:crypto";
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";

/** Path → mode and content, of every file and folder below `dir`, and of `dir` itself. */
export function snapshot(dir: string): Record<string, string> {
  const found: Record<string, string> = {};
  const visit = (path: string, name: string): void => {
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (!stat) return;
    const content = stat.isSymbolicLink()
      ? readlinkSync(path)
      : stat.isFile()
        ? createHash("sha256").update(readFileSync(path)).digest("hex")
        : "";
    found[name] = `${(stat.mode & 0o7777).toString(8)} ${content}`;
    if (stat.isDirectory()) for (const each of readdirSync(path)) visit(join(path, each), join(name, each));
  };
  visit(dir, ".");
  return found;
}
