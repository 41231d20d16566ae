// The Node versions that the library is tested on: the one that runs the tests, and the system's where it differs.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

const OLDEST = 20;

export const nodes: { path: string; version: string }[] = [
  process.execPath,
  ...(process.env["PATH"] ?? "").split(delimiter).map((dir) => join(dir, "node")),
]
  .filter((path) => existsSync(path) && (path === process.execPath || !path.includes("node_modules")))
  .map((path) => ({ path, version: execFileSync(path, ["-v"], { encoding: "utf8" }).trim() }))
  .filter(
    ({ version }, i, all) =>
      Number(version.slice(1, 3)) >= OLDEST && all.findIndex((one) => one.version === version) === i,
  );
